#!/bin/bash
# Runs inside the machine, as a unit. Says "vm: ok SENTENCE" or "vm: not ok SENTENCE" for each.
set -u
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/root

say() { printf 'vm: %s\n' "$*"; }

fail() {
    say "   $*"
    return 1
}

# Waits until a command works: `until_true SECONDS COMMAND...`.
until_true() {
    local end=$((SECONDS + $1))
    shift
    while ! "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt $end ] || fail "not in time: $*" || return 1
        sleep 0.2
    done
}

# One value of a row: `row ID PATH.TO.VALUE`.
row() {
    musterctl show "$1" --json=short | python3 -c '
import json, sys
value = json.load(sys.stdin)
value = value[0] if isinstance(value, list) else value
for key in sys.argv[1].split("."):
    value = None if value is None else value.get(key)
print(value)' "$2"
}

is() { [ "$(row "$1" "$2")" = "$3" ]; }

same() { [ "$1" = "$2" ] || fail "$3: wanted $1, got $2"; }

scenario() {
    local sentence=$1
    shift
    local begun=$SECONDS
    if "$@"; then
        say "ok $sentence ($((SECONDS - begun)) s)"
    else
        say "not ok $sentence"
        musterctl list -a 2>&1 | sed 's/^/vm:    /'
        journalctl -u musterd -n 20 --no-pager -o cat | sed 's/^/vm:    /'
    fi
    musterctl list --no-legend | awk '{ print ($1 ~ /^[a-z0-9]+$/) ? $1 : $2 }' | while read -r id; do
        musterctl cancel --now "$id" >/dev/null 2>&1
    done
}

# For a user; there is no polkit here that could let one ask for itself.
run() { musterctl run -q --clean-env --uid=65534 -d / "$@"; }

starts() {
    local daemon
    until_true 60 musterctl list || return 1
    same cgroup "$(musterctl show --json=short | python3 -c '
import json, sys
view = json.load(sys.stdin)
print(view.get("service", view)["containment"])')" containment || return 1
    daemon=$(systemctl show -P MainPID musterd)
    [ "$daemon" -gt 1 ] || fail "no daemon" || return 1
    grep -q musterd.service "/proc/$daemon/cgroup"
}

memory_limit() {
    local hog calm daemon
    daemon=$(systemctl show -P MainPID musterd)
    calm=$(run -- sleep 1000) || return 1
    hog=$(run --memory-max=64M -- sh -c '/usr/lib/vm/eat.py memory 300000000 & sleep 1000') || return 1
    until_true 90 is "$hog" status exited || return 1
    same True "$(row "$hog" oom_killed)" "the row names the OOM kill" || return 1
    same crashed "$(row "$hog" outcome)" outcome || return 1
    # The whole worker went, also its sleeping shell.
    same 9 "$(row "$hog" exit.signal)" "the leader's signal" || return 1
    same live "$(row "$calm" status)" "the neighbour" || return 1
    same "$daemon" "$(systemctl show -P MainPID musterd)" "the daemon" || return 1
    same active "$(systemctl is-active musterd)" "the unit"
}

pids_limit() {
    local bomb leaf
    bomb=$(run --tasks-max=20 -- /usr/lib/vm/eat.py forks) || return 1
    leaf=/sys/fs/cgroup$(row "$bomb" control_group)
    until_true 60 grep -q '^max [1-9]' "$leaf/pids.events" || return 1
    same 20 "$(cat "$leaf/pids.current")" "tasks of the bomb" || return 1
    # The daemon keeps its own: it starts another worker beside the bomb.
    same 7 "$(run --wait -- sh -c 'exit 7'; echo $?)" "a worker beside it" || return 1
    musterctl cancel --now "$bomb" >/dev/null || return 1
    is "$bomb" status exited || return 1
    [ ! -d "$leaf" ] || fail "its leaf is still there"
}

cpu_weight() {
    local heavy light group a b
    # On one CPU together, or each would have its own.
    heavy=$(run --cpu-weight=900 -- taskset -c 0 /usr/lib/vm/eat.py cpu) || return 1
    light=$(run --cpu-weight=100 -- taskset -c 0 /usr/lib/vm/eat.py cpu) || return 1
    if [ -n "$(row "$heavy" unenforced | tr -d "[]'")" ]; then
        # Without the controller there is nothing to weigh with, and that is said.
        musterctl status "$heavy" | grep -q cpu-weight
        return
    fi
    usec() { sed -n 's/^usage_usec //p' "/sys/fs/cgroup$(row "$1" control_group)/cpu.stat"; }
    enough() { [ "$(usec "$heavy")" -gt 6000000 ]; }
    until_true 120 enough || return 1
    a=$(usec "$heavy") b=$(usec "$light")
    say "   9:1 asked for, $a:$b used"
    [ "$a" -gt $((b * 3)) ] || fail "weights: $a against $b"
}

daemon_oom() {
    local worker daemon pid group
    worker=$(run -- sleep 1000) || return 1
    pid=$(row "$worker" pid)
    daemon=$(systemctl show -P MainPID musterd)
    group=/sys/fs/cgroup$(sed -n 's/^0:://p' "/proc/$daemon/cgroup")
    # Less than it has, and nothing of it to be had back: the kernel kills what is in there.
    echo 200K >"$group/memory.max"
    again() {
        local now
        now=$(systemctl show -P MainPID musterd)
        [ "$now" -gt 1 ] && [ "$now" != "$daemon" ] && musterctl list
    }
    until_true 60 again || return 1
    journalctl -k --no-pager -o cat | grep -q "Killed process $daemon (musterd)" ||
        fail "the kernel did not kill it" || return 1
    same exited "$(row "$worker" status)" status || return 1
    same daemon-lost "$(row "$worker" how_known)" "how it is known" || return 1
    [ ! -d "/proc/$pid" ] || fail "its worker is still there"
}

cpu_max() {
    local worker
    worker=$(run --cpu-max=20% -- /usr/lib/vm/eat.py cpu) || return 1
    [ -z "$(row "$worker" unenforced | tr -d "[]'")" ] || return 0
    throttled() {
        grep -q '^nr_throttled [1-9]' "/sys/fs/cgroup$(row "$worker" control_group)/cpu.stat"
    }
    until_true 60 throttled
}

say "kernel $(uname -r), controllers: $(cat /sys/fs/cgroup/cgroup.controllers)"
scenario "the service comes up with leaves under its own cgroup" starts
scenario "a memory limit ends one worker whole, names the OOM kill, and touches nobody else" memory_limit
scenario "a fork bomb meets its limit and the daemon keeps its own tasks" pids_limit
scenario "of two busy workers the heavier gets more of the CPU" cpu_weight
scenario "a worker with a share of one CPU is held to it" cpu_max
scenario "when the daemon itself runs out of memory its workers end with it, and rows say so" daemon_oom
say "done"
