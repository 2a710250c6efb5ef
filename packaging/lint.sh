#!/usr/bin/env bash
# All that can be said of a built Debian package without installing it, and what other
# distributions' packages can be built of its programs.
set -eu
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
deb=$(ls "$target"/deb/musterd_*.deb 2>/dev/null) || deb=$(packaging/deb/build.sh | tail -n 1)
packaging/deb/lint.sh "$deb"
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
# Those with their debug symbols, as they were built.
cp "$target"/deb/tree/bin/* "$programs/"
packaging/deb/reproducible.sh "$programs"
packaging/check-others.sh "$programs"
