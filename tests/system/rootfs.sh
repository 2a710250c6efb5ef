#!/usr/bin/env bash
# Makes a pristine Debian root file system for ring 3, once; later calls find it there.
#   tests/system/rootfs.sh SUITE DIR [PACKAGES]
# The sources are this machine's own apt files, with the suite's name put in: no host is named.
set -eu

suite=$1 dir=$2
# What a worker must be able to do is tried with real programs, so some are in the image.
packages=systemd,systemd-sysv,systemd-container,libpam-systemd,dbus,dbus-user-session,dbus-bin
packages+=,polkitd,procps,strace,git,sudo,passwd,util-linux,libcap2-bin,lsof
packages+=,nodejs,gcc,libc6-dev,bubblewrap,python3-minimal,libpython3-stdlib,iproute2
packages=${3:-$packages}

# Suites run side by side, and two runs may want the same one.
mkdir -p "$(dirname "$dir")"
exec 9>"$dir.lock"
flock 9

key=$(printf '%s %s' "$suite" "$packages" | sha256sum | cut -c1-16)
if [ "$(cat "$dir.key" 2>/dev/null)" = "$key" ] && [ -d "$dir" ]; then
    exit 0
fi

sources() {
    local file own
    own=$(. /etc/os-release && echo "$VERSION_CODENAME")
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        grep -q "$own" "$file" || continue
        case $file in
        *.sources) awk -v RS= -v own="$own" '$0 ~ own { print $0 "\n" }' "$file" ;;
        *) grep -E "^deb .*\\b$own" "$file" ;;
        esac | sed "s/\\b$own/$suite/g" >"$work/$(basename "$file")"
        # The first that has the distribution is enough; third parties' files do not name it.
        echo "$work/$(basename "$file")"
        return
    done
    echo "no apt source of this machine names $own" >&2
    return 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
list=$(sources)
rm -rf "$dir" "$dir.key"
echo "making $suite in $dir (once)"
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/musterd/*' \
    --dpkgopt=force-unsafe-io --aptopt='APT::Install-Recommends "false"' \
    "$suite" "$dir" "$list"
echo "$key" >"$dir.key"
