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

. "$here/boot.sh"

furnish() {
    mkdir -p "$root/root/fixtures"
    cp -r "$here/fixtures/." "$root/root/fixtures/"
    cp "$here/fixtures/canaries.sh" "$root/usr/local/share/"
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
