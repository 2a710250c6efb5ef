#!/usr/bin/env bash
# Builds the Debian package; the last line of its output is the package's path.
#   MUSTERD_PROFILE=dev   takes the programs of a plain `cargo build`, which is quicker and only
#                         good for trying things out
#   MUSTERD_VERSION=V     calls package and programs so, in a directory of their own
#   MUSTERD_BUILT=DIR     packs the programs of that directory instead of building any
# The same source gives the same bytes, wherever it lies (packaging/deb/reproducible.sh).
set -eu
cd "$(dirname "$0")/../.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
profile=${MUSTERD_PROFILE:-release}
version=${MUSTERD_VERSION:-}
out=$target/deb${version:+-$version}

# No name of a directory of this machine gets into the programs or their debug symbols.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
build_release() {
    local sources flags="--remap-path-prefix=$PWD=/usr/src/musterd"
    flags+=" --remap-path-prefix=$target=/usr/src/musterd/target"
    flags+=" --remap-path-prefix=$cargo_home=/usr/src/cargo"
    # A registry's directory is named after its host.
    for sources in "$cargo_home"/registry/src/*/; do
        flags+=" --remap-path-prefix=${sources%/}=/usr/src/cargo"
    done
    RUSTFLAGS="${RUSTFLAGS:-} $flags" CARGO_PROFILE_RELEASE_DEBUG=line-tables-only \
        cargo build --locked --profile "$profile" --bins
}

[ -z "$version" ] || export MUSTERD_RELEASE=$version
programs=${MUSTERD_BUILT:-$target/$([ "$profile" = dev ] && echo debug || echo "$profile")}
if [ -z "${MUSTERD_BUILT:-}" ]; then
    # The sources of a registry have to be there to be seen.
    cargo fetch --locked --quiet
    if [ "$profile" = dev ]; then
        cargo build --locked --bins
    else
        build_release
        for path in "$PWD" "$target" "$cargo_home"; do
            if grep -aqF "$path/" "$programs/musterd" "$programs/musterctl"; then
                echo "the programs name $path, so two builds would differ" >&2
                exit 1
            fi
        done
    fi
fi

tree=$out/tree
rm -rf "$out"
mkdir -p "$tree/bin"
cp -a packaging config docs examples README.md CHANGELOG.md SECURITY.md LICENSE "$tree/"
cp -a packaging/deb "$tree/debian"
cp "$programs/musterd" "$programs/musterctl" "$tree/bin/"
[ -z "$version" ] || sed -i "1s/(.*)/($version)/" "$tree/debian/changelog"

log=$out/build.log
# What dpkg's flags are for is C; the dates are those of the changelog.
(cd "$tree" && dpkg-buildpackage -b -us -uc -d) >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    exit 1
}
ls "$out"/musterd_*.deb
