#!/usr/bin/env bash
# Ring 4: boots a stock Debian kernel in qemu with the built package installed, and runs in it
# what only real controllers can show: memory limits with the OOM killer, pids limits, weights.
#   tests/vm/run.sh [SUITE]
# MUSTERD_DEB: a package that is built already. The image without it is made once, in target/vm.
set -eu
cd "$(dirname "$0")/../.."

suite=${1:-bookworm}
# The whole run in the machine, boot included; emulated, so a loaded host makes it slow.
limit=${VM_LIMIT:-600}
wanted=$(grep -c '^scenario ' tests/vm/scenarios.sh)

missing=()
[ "$(id -u)" -eq 0 ] || missing+=("root")
for tool in qemu-system-x86_64 mmdebstrap mkfs.ext4 dpkg-buildpackage; do
    command -v "$tool" >/dev/null || missing+=("$tool")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "vm-test: not run, because there is no ${missing[*]}"
    [ "${CI:-}" != true ]
    exit
fi

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
deb=${MUSTERD_DEB:-}
[ -n "$deb" ] || deb=$(packaging/deb/build.sh | tail -n 1)
base=$target/vm/$suite
packages=linux-image-cloud-amd64,initramfs-tools,udev,systemd,systemd-sysv,dbus,procps,python3-minimal,libpython3-stdlib,git
tests/system/rootfs.sh "$suite" "$base" "$packages"

work=$(mktemp -d "$target/vm/run-XXXXXX")
qemu=
cleanup() {
    [ -z "$qemu" ] || kill "$qemu" 2>/dev/null || true
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

root=$work/root
cp -a --reflink=auto "$base" "$root"
kernel=$(ls "$root"/boot/vmlinuz-*-cloud-* | tail -n 1)
initrd=$(ls "$root"/boot/initrd.img-*-cloud-* | tail -n 1)
mv "$kernel" "$work/kernel"
mv "$initrd" "$work/initrd"
cp "$deb" "$root/tmp/musterd.deb"
chroot "$root" dpkg -i /tmp/musterd.deb >"$work/dpkg.log" 2>&1 || {
    cat "$work/dpkg.log" >&2
    exit 1
}
rm "$root/tmp/musterd.deb"
install -D -m 755 tests/vm/scenarios.sh "$root/usr/lib/vm/scenarios.sh"
install -m 755 tests/vm/eat.py "$root/usr/lib/vm/eat.py"
install -m 644 tests/vm/vm-test.service "$root/etc/systemd/system/vm-test.service"
ln -s ../vm-test.service "$root/etc/systemd/system/multi-user.target.wants/vm-test.service"
# Nobody logs in, and the console is the test's.
ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
truncate -s 1500M "$work/root.ext4"
mkfs.ext4 -q -F -d "$root" "$work/root.ext4"
rm -rf --one-file-system "$root"

console=$work/console
# /dev/kvm may be there and not work. A starved machine finds its disk late.
timeout --foreground "$limit" qemu-system-x86_64 -accel tcg -smp 2 -m 1024 -nographic -no-reboot \
    -kernel "$work/kernel" -initrd "$work/initrd" \
    -drive "file=$work/root.ext4,format=raw,if=virtio" -nic none \
    -append "root=/dev/vda rw rootdelay=180 console=ttyS0 panic=-1 quiet systemd.show_status=no" \
    </dev/null >"$console" 2>&1 &
qemu=$!
wait "$qemu" || echo "qemu ended with $?, limit ${limit} s" >&2
qemu=

# The console has carriage returns; what the scenarios say begins with "vm: ".
tr -d '\r' <"$console" | sed -n 's/^.*vm: //p'
ran=$(tr -d '\r' <"$console" | grep -c 'vm: ok ' || true)
echo "vm-test: $ran of $wanted scenarios passed on $suite"
if [ "$ran" -ne "$wanted" ]; then
    echo "the end of the console:" >&2
    tail -n 60 "$console" >&2
    exit 1
fi
