# Thin targets; what they do is in the scripts they call. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help run test check system-test vm-test crash-test soak fuzz bench deb install

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 14

run: ## Build, then run the main job on a throw-away git repository
	@packaging/needs.sh build run
	cargo build --locked
	@packaging/demo.sh

test: ## Every in-process and end-to-end test, as root also as an ordinary user
	@packaging/needs.sh build test
	@tests/run.sh

check: ## Format, clippy, cargo-deny, documentation: what CI checks before the tests
	@packaging/needs.sh build
	@.ci/check

define later
	@echo "make $@: not built yet. $(1)" >&2; exit 1
endef

system-test: ## Booted containers with real systemd, Debian 12 and 13 (later)
	$(call later,It will boot Debian 12 and 13 as containers with systemd as PID 1 and test the installed package.)

vm-test: ## A virtual machine with all cgroup controllers (later)
	$(call later,It will boot a stock Debian kernel in qemu for limits and the OOM killer.)

crash-test: ## SIGKILL at every system call of a write (later)
	$(call later,It will kill the daemon at each system call of a write and compare the roll after the next start.)

soak: ## Hours of churn (later)
	$(call later,It will run hours of spawns, cancels and reloads and compare memory and descriptors.)

fuzz: ## Fuzz frames, state files and the bus (later)
	$(call later,It will fuzz the frame codec, state files, probe output and configuration.)

bench: ## Figures against the goals (later)
	$(call later,It will measure spawns, exits, cancels and 100000 rows against the machine's own floors.)

deb: ## The Debian package (later)
	$(call later,It will build the package from packaging/deb.)

install: ## Install under DESTDIR and PREFIX (later)
	$(call later,It will install programs, units, bus policy and man pages under DESTDIR and PREFIX.)
