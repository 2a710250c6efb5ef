#!/usr/bin/env bash
# Builds the packages twice, in different directories, and compares them byte by byte.
#   packaging/deb/reproducible.sh [DIRECTORY OF PROGRAMS]
# With programs that are built already only the packaging is done twice, which takes seconds;
# without, everything is built twice.
set -eu
cd "$(dirname "$0")/../.."

built=${1:+$(realpath "$1")}
# Not below /tmp, which may be small.
mkdir -p "${CARGO_TARGET_DIR:-target}"
work=$(mktemp -d "$(realpath "${CARGO_TARGET_DIR:-target}")/reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT

for place in one another/place; do
    mkdir -p "$work/$place/source"
    tar --exclude=./target --exclude=./.git -cf - . | tar -xf - -C "$work/$place/source"
    # Neither the modes that a checkout happens to have nor the time of day may count.
    [ "$place" = one ] || chmod -R g-w,o-rx "$work/$place/source/config" "$work/$place/source/docs"
    (
        umask "$([ "$place" = one ] && echo 022 || echo 077)"
        export CARGO_TARGET_DIR=$work/$place/target MUSTERD_BUILT=$built
        export TZ="$([ "$place" = one ] && echo UTC || echo Asia/Kathmandu)"
        "$work/$place/source/packaging/deb/build.sh" >/dev/null
    )
done

bad=0
for package in "$work"/one/target/deb/*.deb; do
    if cmp "$package" "$work/another/place/target/deb/$(basename "$package")"; then
        echo "$(basename "$package"): $(sha256sum <"$package" | cut -c 1-16), twice the same"
    else
        bad=1
    fi
done
exit $bad
