#!/usr/bin/env bash
# Installs the Debian packages that the named jobs need, and only those that are missing.
#   packaging/needs.sh build|run|test|deb|lint-package|system-test|vm-test|bench ...
set -eu

declare -A packages=(
    [build]="cc:gcc"
    [run]="git:git"
    [deb]="dpkg-buildpackage:dpkg-dev dh:debhelper"
    [lint-package]="lintian:lintian groff:groff mandoc:mandoc appstreamcli:appstream xmllint:libxml2-utils zsh:zsh rpmbuild:rpm rpmlint:rpmlint makepkg:makepkg pacman:pacman-package-manager bsdtar:libarchive-tools"
    [system-test]="systemd-nspawn:systemd-container mmdebstrap:mmdebstrap nsenter:util-linux python3:python3"
    [bench]="systemd-nspawn:systemd-container mmdebstrap:mmdebstrap nsenter:util-linux git:git"
    [vm-test]="qemu-system-x86_64:qemu-system-x86 mmdebstrap:mmdebstrap mkfs.ext4:e2fsprogs"
    [test]="git:git python3:python3 strace:strace setpriv:util-linux dbus-daemon:dbus-daemon busctl:systemd"
)

missing=()
for job in "$@"; do
    for pair in ${packages[$job]}; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
done

if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install Rust 1.89 or later (https://rustup.rs) and try again" >&2
    exit 1
fi
[ ${#missing[@]} -eq 0 ] && exit 0
if ! command -v apt-get >/dev/null; then
    echo "please install: ${missing[*]} (this is no Debian machine, so it is not done for you)" >&2
    exit 1
fi

sudo=()
if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || {
        echo "please install as root: apt-get install ${missing[*]}" >&2
        exit 1
    }
    sudo=(sudo)
fi
echo "installing ${missing[*]}"
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "${missing[@]}" >/dev/null
