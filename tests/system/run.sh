#!/usr/bin/env bash
# Ring 3: boots Debian as a container with systemd as PID 1, installs the built package, and runs
# the scenarios through systemctl, busctl and journalctl.
#   tests/system/run.sh [-k REGEX] [bookworm|trixie]...
# -k: only scenarios whose sentence matches. MUSTERD_DEB: a package that is built already.
# IDLE_EXITS: how many idle exits calls are drawn against (12; CI has 200).
set -eu
cd "$(dirname "$0")/../.."

only=
if [ "${1:-}" = -k ]; then
    only=$2
    shift 2
fi
[ $# -gt 0 ] || set -- bookworm trixie

missing=()
[ "$(id -u)" -eq 0 ] || missing+=("root")
for tool in systemd-nspawn mmdebstrap nsenter python3 setsid dpkg-buildpackage; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "system-test: not run, because there is no ${missing[*]}"
    [ "${CI:-}" != true ]
    exit
fi

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
deb=${MUSTERD_DEB:-}
[ -n "$deb" ] || deb=$(packaging/deb/build.sh | tail -n 1)
here=$PWD/tests/system
. "$here/lib.sh"

booted= leader= root= group=
shut_down() {
    if [ -n "$booted" ] && kill -TERM "$booted" 2>/dev/null; then
        # A container whose init hangs is ended by nspawn's own pid.
        for _ in $(seq 100); do
            kill -0 "$booted" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$booted" 2>/dev/null || true
    fi
    [ -z "$booted" ] || wait "$booted" 2>/dev/null || true
    booted=
    if [ -n "$group" ] && [ -d "$group" ]; then
        # Empty: the container is gone. Deepest first.
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    fi
    group=
    if [ -n "$root" ]; then
        rm -rf --one-file-system "$root"
    fi
    root=
}
trap shut_down EXIT
trap 'exit 130' INT TERM

# A cgroup for one container, wherever cgroup2 is mounted here.
own_group() {
    local mount
    mount=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
    [ -n "$mount" ] || fail "no cgroup2 is mounted here" || return 1
    mkdir -p "$mount/musterd-ring3-$$"
    echo "$mount/musterd-ring3-$$"
}

boot() { # SUITE
    root=$target/system/run-$1-$$
    "$here/rootfs.sh" "$1" "$target/system/$1"
    cp -a --reflink=auto "$target/system/$1" "$root"
    rm -f "$root/etc/machine-id"
    echo uninitialized >"$root/etc/machine-id"
    cp "$deb" "$root/root/musterd.deb"
    mkdir -p "$root/root/fixtures"
    cp -r "$here/fixtures/." "$root/root/fixtures/"
    cp "$here/fixtures/canaries.sh" "$root/usr/local/share/"
    local log=$target/system/$1.log
    group=$(own_group) || return 1
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 setsid systemd-nspawn -D "$root" --register=no \
        --keep-unit --boot --console=interactive --quiet </dev/null >"$log" 2>&1 &
    booted=$!
    # Two containers in one group would share their services' groups. It forks later than this.
    echo "$booted" >"$group/cgroup.procs"
    local end=$((SECONDS + 60))
    leader=
    while [ $SECONDS -lt $end ] && kill -0 "$booted" 2>/dev/null; do
        leader=$(cat "/proc/$booted/task/$booted/children" 2>/dev/null | tr -d ' ')
        if [ -n "$leader" ] && inside systemctl is-system-running >"$log.state" 2>/dev/null; then
            return
        fi
        grep -q degraded "$log.state" 2>/dev/null && break
        sleep 0.2
    done
    if [ -n "$leader" ] && grep -q degraded "$log.state"; then
        echo "note: $1 booted degraded: $(inside systemctl --failed --no-legend --plain | tr '\n' ';')"
        return
    fi
    tail -n 20 "$log" >&2
    fail "$1 did not boot within 60 s"
}

ran=0 failed=0 skipped=0
# `scenario "sentence" function`: runs it in a shell of its own that ends at the first error.
scenario() {
    [[ $1 =~ $only ]] || return 0
    local output began=$SECONDS result
    # Not within || or if: errexit would be off inside, and a failed check passed over.
    set +e
    output=$(
        set -e
        mark_journal
        "$2" 2>&1
    )
    result=$?
    set -e
    ran=$((ran + 1))
    if [ "$result" -eq 0 ]; then
        printf 'ok    %s: %s (%s s)%s\n' "$suite" "$1" $((SECONDS - began)) \
            "$(printf '%s' "$output" | sed -n 's/^note: /; /p' | tr -d '\n')"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s: %s\n' "$suite" "$1"
        printf '%s\n' "$output" | tail -n 40 | sed 's/^/      /'
        inside journalctl -n 25 --no-pager -o short-monotonic -u musterd.service -u musterd.socket \
            2>/dev/null | sed 's/^/    | /' || true
    fi
}

for suite in "$@"; do
    boot "$suite"
    echo "booted $suite: $(inside systemctl --version | head -n 1)"
    for file in "$here"/scenarios/*.sh; do
        . "$file"
    done
    shut_down
done

printf '\nsystem-test: %s scenarios ran, %s failed (%s)\n' "$ran" "$failed" "$*"
[ "$failed" -eq 0 ] && [ "$ran" -gt 0 ]
