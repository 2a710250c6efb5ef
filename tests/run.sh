#!/usr/bin/env bash
# Runs every test: first as whoever calls it, then, if that is root, the same programs again as
# an ordinary user without a passwd entry. Prints how many cases ran.
#   tests/run.sh [FILTER]
set -eu -o pipefail
cd "$(dirname "$0")/.."

filter=("$@")
uid=12345
# dbus-daemon turns away a user it cannot look up, so its tests run as one that it can.
nobody=65534
scratch=$(mktemp -d "${TMPDIR:-/tmp}/musterd-test.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
chmod 755 "$scratch"
log=$scratch/log
failed=0

# `test result: ok. 12 passed; 0 failed; 1 ignored; ...`, one line a program.
count() {
    awk -v who="$1" '
        /^test result:/ { passed += $4; failed += $6; ignored += $8; programs++ }
        /not run, because/ { skipped++ }
        END {
            printf "\n== %s: %d programs, %d passed, %d failed, %d ignored, %d not run\n",
                who, programs, passed, failed, ignored, skipped
            exit passed == 0
        }' "$log"
}

echo "== tests as $(id -un 2>/dev/null || id -u)"
cargo build --locked --bins --examples
cargo test --locked --no-fail-fast -- ${filter[@]+"${filter[@]}"} 2>&1 | tee "$log" || failed=1
count "as $(id -un 2>/dev/null || id -u)" || failed=1

if [ "$(id -u)" -eq 0 ]; then
    echo
    echo "== tests as uid $uid"
    # The checkout may lie where nobody else can look, so the programs are copied out of it.
    install -d -m 755 "$scratch/bin"
    for user in "$uid" "$nobody"; do
        install -d -o "$user" -g "$user" "$scratch/$user" "$scratch/$user/tmp"
    done
    target=$(cargo metadata --locked --no-deps --format-version 1 |
        sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
    install -m 755 "$target"/debug/musterd "$target"/debug/musterctl \
        "$target"/debug/examples/forktree "$scratch/bin"
    mapfile -t programs < <(cargo test --locked --no-run 2>&1 |
        sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
    : >"$log"
    for program in "${programs[@]}"; do
        name=$(basename "$program")
        install -m 755 "$program" "$scratch/bin/$name"
        case $name in dbus-*) user=$nobody ;; *) user=$uid ;; esac
        (cd "$scratch/$user" &&
            setpriv --reuid "$user" --regid "$user" --clear-groups --inh-caps=-all --bounding-set=-all \
                env -i PATH="$PATH" HOME="$scratch/$user" TMPDIR="$scratch/$user/tmp" CI="${CI:-}" \
                MUSTERD_TEST_PROGRAMS="$scratch/bin" \
                "$scratch/bin/$name" ${filter[@]+"${filter[@]}"}) 2>&1 | tee -a "$log" || failed=1
    done
    count "as uid $uid" || failed=1
fi

[ "$failed" -eq 0 ] || { echo "tests: FAILED" >&2; exit 1; }
echo "tests: all passed"
