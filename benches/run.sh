#!/usr/bin/env bash
# Measures musterd beside floors and systemd, in one run, and writes the tables of
# docs/performance.md.
#   benches/run.sh [--host] [OPTION OF THE DRIVER...]
# As root with systemd-nspawn: the package as installed, in a booted Debian 12. With --host, or
# where that cannot be had: a daemon of its own on this machine, without bus and systemd.
# Other options go to the driver: --only spawn,tree --rounds 9 --quick. MUSTERD_DEB: a package
# that is built already.
set -eu
cd "$(dirname "$0")/.."

host=
if [ "${1:-}" = --host ]; then
    host="it was asked for"
    shift
fi
[ "$(id -u)" -eq 0 ] || host="this is not root"
for tool in systemd-nspawn mmdebstrap nsenter setsid dpkg-buildpackage; do
    command -v "$tool" >/dev/null || host="there is no $tool"
done

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --locked --release --quiet --example bench --example floor --example echo --example engine
programs=$target/release/examples
work=$target/bench
rm -rf "$work"
mkdir -p "$work"
table=$work/table.md

in_container() {
    deb=${MUSTERD_DEB:-}
    [ -n "$deb" ] || deb=$(packaging/deb/build.sh | tail -n 1)
    here=$PWD/tests/system
    . "$here/lib.sh"
    . "$here/boot.sh"
    furnish() {
        mkdir -p "$root/root/bench"
        cat >"$root/etc/dbus-1/system.d/bench.conf" <<'END'
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <policy user="root">
    <allow own="org.muster1.bench.Echo"/>
    <allow send_destination="org.muster1.bench.Echo"/>
  </policy>
</busconfig>
END
        cp "$programs/bench" "$programs/floor" "$programs/echo" "$programs/engine" "$root/root/bench/"
        cat >"$root/root/bench/fresh.sh" <<'END'
systemctl stop musterd.socket musterd.service
rm -rf /var/lib/musterd
systemctl reset-failed
systemctl start musterd.socket musterd.service || {
    journalctl -n 60 --no-pager -o short-monotonic -u musterd.service -u musterd.socket >&2
    exit 1
}
END
    }
    boot bookworm
    inside dpkg -i /root/musterd.deb >/dev/null
    inside mkdir -p /sys/fs/cgroup/bench /var/lib/bench
    echo "musterd as packaged, in a booted Debian 12: $(inside systemctl --version | head -n 1)"
    inside sh -c 'ulimit -n "$(ulimit -Hn)"; exec "$@"' sh /root/bench/bench \
        --fresh "sh /root/bench/fresh.sh" --dir /var/lib/bench --cgroup /sys/fs/cgroup/bench \
        --bus unix:path=/run/dbus/system_bus_socket --systemd --table /root/bench/table.md "$@"
    cp "$root/root/bench/table.md" "$table"
}

on_host() {
    echo "musterd on this machine, not in a container, because $host"
    cargo build --locked --release --quiet --bin musterd
    local mount
    mount=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
    cgroup=$mount/musterd-bench-$$
    mkdir -p "$cgroup"
    cat >"$work/fresh.sh" <<END
if [ -e "$work/pid" ]; then
    kill -TERM "\$(cat "$work/pid")" 2>/dev/null
    while kill -0 "\$(cat "$work/pid")" 2>/dev/null; do sleep 0.05; done
fi
rm -rf "$work/state" "$work/run"
mkdir -m 711 "$work/state" "$work/run"
setsid "$target/release/musterd" --state-dir "$work/state" --runtime-dir "$work/run" \
    --socket "$work/sock" --no-bus --log stderr </dev/null >"$work/log" 2>&1 &
echo \$! >"$work/pid"
END
    ulimit -n "$(ulimit -Hn)"
    "$programs/bench" --socket "$work/sock" --fresh "sh $work/fresh.sh" --dir "$work" \
        --cgroup "$cgroup" --table "$table" "$@"
}

host_ends() {
    [ ! -e "$work/pid" ] || kill -TERM "$(cat "$work/pid")" 2>/dev/null || true
    [ -z "${cgroup:-}" ] || rmdir "$cgroup" 2>/dev/null || true
}

if [ -z "$host" ]; then
    in_container "$@"
else
    trap host_ends EXIT
    on_host "$@"
fi

echo "the tables: $table"
case " $* " in
*" --quick "* | *" --only "*) echo "docs/performance.md stays: this was not a whole run" ;;
*)
    [ -n "$host" ] || awk -v table="$table" '
        /<!-- begin of the tables -->/ { print; print ""; while ((getline line < table) > 0) print line; skip = 1 }
        /<!-- end of the tables -->/ { skip = 0 }
        !skip { print }' docs/performance.md >"$work/performance.md" &&
        cp "$work/performance.md" docs/performance.md
    ;;
esac
