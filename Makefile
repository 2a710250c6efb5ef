# Thin targets; what they do is in the scripts they call. `make help` lists them.

.DEFAULT_GOAL := help
.PHONY: help run test check system-test vm-test crash-test soak fuzz bench deb lint-package install

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

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

deb: ## Build the Debian package
	@packaging/needs.sh build deb
	@packaging/deb/build.sh

lint-package: ## Check the built package: lintian, release notes, same bytes twice; RPM and Arch
	@packaging/needs.sh build deb lint-package
	@packaging/lint.sh

system-test: ## Boot Debian 12 and 13 as containers and test the installed package under systemd
	@packaging/needs.sh build deb system-test
	@tests/system/run.sh

bench: ## Measure musterd as packaged beside floors and systemd, goal by goal (takes a while)
	@packaging/needs.sh build deb bench
	@benches/run.sh

fuzz: ## Every property (frames, rows, decisions, probe output) with many more cases: CASES=20000
	@PROPTEST_CASES=$${CASES:-20000} cargo test --locked --lib -- codec frame queue notify record \
		registry index status settle step life liveness restart admission

crash-test: ## Kill the daemon before every system call of a write, compare the roll after it (as root)
	@packaging/needs.sh build run test
	cargo build --locked --bins --examples
	@cargo test --locked --test crash -- --nocapture --test-threads=1

soak: ## Rounds of starts, ends and reloads; nothing may pile up: MINUTES=10
	@packaging/needs.sh build run test
	cargo build --locked --bins --examples
	@MINUTES=$${MINUTES:-10} cargo test --locked --test soak -- --nocapture

vm-test: ## Boot a stock Debian kernel in qemu with the package, for limits and the OOM killer
	@packaging/needs.sh build deb vm-test
	@tests/vm/run.sh

install: ## Install the built programs, units, bus policy and documents under DESTDIR and PREFIX
	@packaging/install.sh
