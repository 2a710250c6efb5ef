#!/usr/bin/env bash
# Packs built programs by the RPM spec and by the PKGBUILD, as far as a Debian machine can: both
# have to build, with every installed file named. It says what their linters say.
#   packaging/check-others.sh DIRECTORY-OF-PROGRAMS
set -eu
cd "$(dirname "$0")/.."

built=$(realpath "$1")
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
mkdir -p "${CARGO_TARGET_DIR:-target}"
work=$(mktemp -d "$(realpath "${CARGO_TARGET_DIR:-target}")/others.XXXXXX")
trap 'rm -rf "$work"' EXIT
ran=0
has() { command -v "$1" >/dev/null; }

# The archive that both start from.
tar --exclude=./target --exclude=./.git --transform "s|^\.|musterd-$version|" \
    -czf "$work/musterd-$version.tar.gz" .

if has rpmbuild; then
    mkdir -p "$work/rpm/SOURCES"
    cp "$work/musterd-$version.tar.gz" "$work/rpm/SOURCES/"
    macros=(--load packaging/rpm/macros.debian --define "_topdir $work/rpm" --define "built $built")
    rpmspec "${macros[@]}" --parse packaging/rpm/musterd.spec >/dev/null
    # Debian's rpm knows no dependencies of this machine.
    rpmbuild "${macros[@]}" --nodeps --define 'debug_package %{nil}' -bb \
        packaging/rpm/musterd.spec >"$work/rpm.log" 2>&1 || {
        tail -n 30 "$work/rpm.log" >&2
        exit 1
    }
    package=$(find "$work/rpm/RPMS" -name '*.rpm')
    echo "rpm: $(basename "$package"), $(rpm -qlp "$package" 2>/dev/null | wc -l) files"
    if has rpmlint; then
        rpmlint --config packaging/rpm/rpmlint.toml packaging/rpm/musterd.spec "$package"
    fi
    ran=$((ran + 1))
fi

if has makepkg && has pacman && has bsdtar; then
    bash -n packaging/arch/PKGBUILD
    mkdir -p "$work/arch/programs"
    cp packaging/arch/PKGBUILD "$work/musterd-$version.tar.gz" "$work/arch/"
    cp "$built/musterd" "$built/musterctl" "$work/arch/programs/"
    run=()
    if [ "$(id -u)" -eq 0 ]; then
        # makepkg refuses to be root.
        chmod 755 "$work"
        chown -R nobody "$work/arch"
        run=(setpriv --reuid nobody --clear-groups)
    fi
    (cd "$work/arch" && "${run[@]}" env HOME="$work/arch" PKGEXT=.pkg.tar.gz \
        MUSTERD_BUILT="$work/arch/programs" makepkg --nodeps --force) >"$work/arch.log" 2>&1 || {
        tail -n 30 "$work/arch.log" >&2
        exit 1
    }
    package=$(ls "$work"/arch/*.pkg.tar.gz)
    echo "arch: $(basename "$package"), $(tar -tzf "$package" | grep -vc '/$') files"
    ran=$((ran + 1))
fi

echo "check-others: $ran of 2 packages built"
[ "$ran" -gt 0 ]
