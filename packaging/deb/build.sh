#!/usr/bin/env bash
# Builds the Debian package into target/deb. MUSTERD_PROFILE=dev takes the programs of a plain
# `cargo build`, which is quicker and only good for trying things out.
set -eu
cd "$(dirname "$0")/../.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
profile=${MUSTERD_PROFILE:-release}
cargo build --locked --profile "$profile" --bins
programs=$target/$([ "$profile" = dev ] && echo debug || echo "$profile")

tree=$target/deb/tree
rm -rf "$tree"
mkdir -p "$tree/bin"
cp -a packaging config docs examples README.md CHANGELOG.md SECURITY.md LICENSE "$tree/"
cp -a packaging/deb "$tree/debian"
cp "$programs/musterd" "$programs/musterctl" "$tree/bin/"
rm -f "$target"/deb/*.deb
# The compiler's own options are cargo's affair; dpkg's are for C.
log=$target/deb/build.log
export DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-} noautodbgsym"
(cd "$tree" && dpkg-buildpackage -b -us -uc -d) >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    exit 1
}
ls "$target"/deb/musterd_*.deb
