# What the scenarios of ring 3 are written with. Sourced.

# Runs a command inside the booted container, as root, with a plain environment.
inside() {
    nsenter -t "$leader" -a -- env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        HOME=/root LC_ALL=C.UTF-8 SYSTEMD_COLORS=0 SYSTEMD_PAGER=cat "$@"
}

# The same as a user: `as anna COMMAND...`
as() {
    local user=$1
    shift
    inside setpriv --reuid="$user" --regid="$user" --init-groups \
        env HOME="/home/$user" USER="$user" "$@"
}

# Waits until a command works: `until_true SECONDS COMMAND...`. Never for a duration.
until_true() {
    local limit=$1 end
    shift
    end=$((SECONDS + limit))
    while ! "$@" >/dev/null 2>&1; do
        if [ $SECONDS -ge $end ]; then
            echo "not within $limit s: $*" >&2
            return 1
        fi
        sleep 0.05
    done
}

fail() {
    echo "$*" >&2
    return 1
}

# `same WANTED GOT WHAT`
same() {
    [ "$1" = "$2" ] || fail "$3: wanted '$1', got '$2'"
}

property() { inside systemctl show -P "$2" "$1"; }
# Waited for after a call on the socket, which is served before the unit is ready.
is_active() { [ "$(property "$1" ActiveState)" = active ]; }
is_inactive() { [ "$(property "$1" ActiveState)" = inactive ]; }

# A call on the bus, as `busctl` does it: `call METHOD [SIGNATURE ARGUMENT...]`
call() {
    local method=$1
    shift
    inside busctl --system call -- org.muster1 /org/muster1 org.muster1.Manager "$method" "$@"
}

# Starts a worker on the bus and prints its id: `spawn UID COMMAND...`, root asking for another.
spawn() {
    local uid=$1
    shift
    call Spawn 'a{sv}' 4 argv as $# "$@" uid u "$uid" cwd s / env as 1 PATH=/usr/bin:/bin |
        sed -n 's/^soa{sv} "\([a-z0-9]*\)".*/\1/p'
}

# One value of a row, by its JSON name.
row() { inside musterctl --socket /run/musterd.sock show "$1" --json=short | field "$2"; }

field() {
    python3 -c 'import json,sys
row = json.load(sys.stdin)
row = row[0] if isinstance(row, list) else row
for key in sys.argv[1].split("."):
    row = row.get(key) if isinstance(row, dict) else None
print("" if row is None else row)' "$1"
}

wait_end() { inside musterctl --socket /run/musterd.sock wait "$@" --timeout=30 >/dev/null || true; }

# What the journal has of a unit since the scenario began. Not --after-cursor: systemd 252 passes
# over the first entry that matches, if the cursor's own does not.
journal() { inside journalctl --no-pager --cursor="$cursor" "$@"; }
mark_journal() {
    cursor=$(inside journalctl -n 0 --show-cursor | sed -n 's/^-- cursor: //p')
}

# The unit as shipped, running, with nothing on its roll.
fresh() {
    inside rm -rf /etc/systemd/system/musterd.service.d /etc/systemd/system/musterd-gc.service.d
    inside systemctl stop musterd.service musterd.socket 2>/dev/null
    inside rm -rf /var/lib/musterd /run/systemd/system/musterd.service.d
    inside rm -rf /etc/musterd
    inside systemctl daemon-reload
    inside systemctl reset-failed 2>/dev/null || true
    inside systemctl start musterd.socket
    mark_journal
}

# A drop-in for this boot: `drop_in UNIT LINE...`
drop_in() {
    local unit=$1 dir=/run/systemd/system/$1.d
    shift
    inside mkdir -p "$dir"
    { echo '[Service]'; printf '%s\n' "$@"; } | inside tee "$dir/test.conf" >/dev/null
    inside systemctl daemon-reload
}

configure() {
    inside mkdir -p /etc/musterd
    inside tee /etc/musterd/musterd.toml >/dev/null
}
