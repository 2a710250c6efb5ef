# Boots a Debian container with systemd as PID 1 and the built package in it. Sourced, after
# lib.sh, by what runs in one; it sets `target`, `here` and `deb`, and calls `boot SUITE`, which
# sets `leader` and `root`. The function `furnish` puts what it needs into $root first.

booted= leader= root= group= log=
shut_down() {
    if [ -n "$booted" ] && kill -TERM "$booted" 2>/dev/null; then
        # A container whose init hangs is ended by nspawn's own pid.
        for _ in $(seq 100); do
            kill -0 "$booted" 2>/dev/null || break
            sleep 0.1
        done
        kill -KILL "$booted" 2>/dev/null || true
    fi
    [ -z "$booted" ] || wait "$booted" 2>/dev/null || true
    booted=
    if [ -n "$group" ] && [ -d "$group" ]; then
        # Empty: the container is gone. Deepest first.
        find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null || true
    fi
    group=
    if [ -n "$root" ]; then
        rm -rf --one-file-system "$root"
        # What the console said is of use only where something failed.
        [ "${failed:-0}" -gt 0 ] || rm -f "$log" "$log.state"
    fi
    root=
}
trap shut_down EXIT
trap 'exit 130' INT TERM

# A cgroup for one container, wherever cgroup2 is mounted here.
own_group() {
    local mount
    mount=$(awk '$0 ~ / - cgroup2 / { print $5; exit }' /proc/self/mountinfo)
    [ -n "$mount" ] || fail "no cgroup2 is mounted here" || return 1
    mkdir -p "$mount/musterd-boot-$$"
    echo "$mount/musterd-boot-$$"
}

boot() { # SUITE
    root=$target/system/run-$1-$$
    "$here/rootfs.sh" "$1" "$target/system/$1"
    cp -a --reflink=auto "$target/system/$1" "$root"
    rm -f "$root/etc/machine-id"
    echo uninitialized >"$root/etc/machine-id"
    cp "$deb" "$root/root/musterd.deb"
    furnish
    log=$target/system/$1-$$.log
    group=$(own_group) || return 1
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 setsid systemd-nspawn -D "$root" --register=no \
        --keep-unit --boot --console=interactive --quiet </dev/null >"$log" 2>&1 &
    booted=$!
    # Two containers in one group would share their services' groups. It forks later than this.
    echo "$booted" >"$group/cgroup.procs"
    local end=$((SECONDS + 60))
    leader=
    while [ $SECONDS -lt $end ] && kill -0 "$booted" 2>/dev/null; do
        leader=$(cat "/proc/$booted/task/$booted/children" 2>/dev/null | tr -d ' ')
        if [ -n "$leader" ] && inside systemctl is-system-running >"$log.state" 2>/dev/null; then
            return
        fi
        grep -q degraded "$log.state" 2>/dev/null && break
        sleep 0.2
    done
    if [ -n "$leader" ] && grep -q degraded "$log.state"; then
        echo "note: $1 booted degraded: $(inside systemctl --failed --no-legend --plain | tr '\n' ';')"
        return
    fi
    tail -n 20 "$log" >&2
    fail "$1 did not boot within 60 s"
}
