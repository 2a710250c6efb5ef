#!/usr/bin/env bash
# Ring 3: boots Debian as a container with systemd as PID 1, installs the built package, and runs
# the scenarios through systemctl, busctl and journalctl.
#   tests/system/run.sh [-k REGEX] [bookworm|trixie]...
# -k: only scenarios whose sentence matches, after the installation. Several suites run side by
# side, since most of a scenario is waiting. MUSTERD_DEB: a package that is built already.
# IDLE_EXITS: how many idle exits calls are drawn against (12; CI has 200, in a container of their
# own). RELOADS: how many reloads there are under load (100).
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

# Each run in a process of its own, which writes its counts to a file.
side_by_side() {
    local pids=() pid idle=${IDLE_EXITS:-12} bad=0 suite
    tally=$(mktemp -d)
    # Of theirs each ends its own container.
    trap 'kill -TERM "${pids[@]}" 2>/dev/null; wait; rm -rf "$tally"; exit 130' INT TERM
    trap 'rm -rf "$tally"' EXIT
    for suite in "$@"; do
        MUSTERD_DEB=$deb TALLY=$tally/$suite IDLE_EXITS=12 "$here/run.sh" -k "$only" "$suite" &
        pids+=($!)
    done
    if [ "$idle" -gt 12 ] && [ -z "$only" ]; then
        MUSTERD_DEB=$deb TALLY=$tally/idle IDLE_EXITS=$idle \
            "$here/run.sh" -k 'against idle exits' "$1" &
        pids+=($!)
    fi
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    awk -v runs="${#pids[@]}" -v what="$*" -v took="$SECONDS" '
        { ran += $1; failed += $2; seen++ }
        END {
            printf "\nsystem-test: %d scenarios ran, %d failed (%s), %d s\n", ran, failed, what, took
            exit failed > 0 || seen != runs
        }' "$tally"/* || bad=1
    return $bad
}
if [ $# -gt 1 ]; then
    side_by_side "$@"
    exit
fi

ran=0 failed=0
. "$here/boot.sh"

furnish() {
    mkdir -p "$root/root/fixtures"
    # The image leaves manual pages out to be small; ours are looked at.
    sed -i '/usr.share.man/d' "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap
    cp -r "$here/fixtures/." "$root/root/fixtures/"
    # What workers run lies where their users may read.
    cp "$here/fixtures/canaries.sh" "$here/fixtures/frames.py" "$root/usr/local/share/"
}

# `scenario "sentence" function`: runs it in a shell of its own that ends at the first error.
scenario() {
    # All others need what the first one installs.
    [[ $1 =~ $only ]] || [ "$ran" -eq 0 ] || return 0
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

suite=$1
boot "$suite"
echo "booted $suite: $(inside systemctl --version | head -n 1), $SECONDS s"
for file in "$here"/scenarios/*.sh; do
    . "$file"
done
shut_down

[ -z "${TALLY:-}" ] || echo "$ran $failed" >"$TALLY"
printf 'system-test: %s scenarios ran, %s failed (%s), %s s\n' "$ran" "$failed" "$*" "$SECONDS"
[ "$failed" -eq 0 ] && [ "$ran" -gt 0 ]
