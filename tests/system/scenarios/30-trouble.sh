# What the service manager, the bus and the operator may do to the daemon.

stop_in_time() {
    fresh
    local n ids=() began
    for n in $(seq 50); do
        ids+=("$(spawn 1000 sh -c 'trap "" TERM; echo ready; while :; do sleep 1000; done')")
    done
    began=$SECONDS
    inside systemctl stop musterd.service
    [ $((SECONDS - began)) -lt 30 ] || fail "it took $((SECONDS - began)) s"
    same success "$(property musterd.service Result)" "result"
    same 0 "$(inside pgrep -c -r D,R,S,T,t -u anna sleep || true)" "left processes"
    for n in 0 24 49; do
        same exited "$(row "${ids[$n]}" status)" "status"
        same cancelled "$(row "${ids[$n]}" outcome)" "outcome"
        row "${ids[$n]}" cancelled.reason | grep -q 'service is stopping'
    done
    echo "note: stopped in $((SECONDS - began)) s"
}
scenario "systemctl stop with 50 workers that ignore SIGTERM ends in time and rows say why" stop_in_time

extends() {
    fresh
    drop_in musterd.service TimeoutStopSec=2s
    configure <<<'[ladder]
kill_grace = "5s"'
    local id
    id=$(spawn 1000 sh -c 'trap "" TERM; while :; do sleep 1000; done')
    inside systemctl stop musterd.service
    same success "$(property musterd.service Result)" "result"
    same cancelled "$(row "$id" outcome)" "outcome"
    same kill "$(row "$id" rung)" "rung"
}
scenario "a drain that takes longer than TimeoutStopSec asks for more time" extends

pings() {
    fresh
    drop_in musterd.service WatchdogSec=1s
    inside systemctl start musterd.service
    local pid stamp n
    pid=$(property musterd.service MainPID)
    for n in 1 2 3 4 5 6; do
        stamp=$(property musterd.service WatchdogTimestampMonotonic)
        newer() { [ "$(property musterd.service WatchdogTimestampMonotonic)" -gt "$stamp" ]; }
        until_true 2 newer
    done
    same "$pid" "$(property musterd.service MainPID)" "pid"
}
scenario "a healthy loop answers the watchdog" pings

# What is left of a worker after its daemon was killed: nothing, and a row that says so.
lost_worker() { # ID PID
    gone() { ! inside test -d "/proc/$1" || inside grep -q '^State:\s*[ZX]' "/proc/$1/status"; }
    until_true 10 gone "$2"
    same exited "$(row "$1" status)" "status"
    same unknown "$(row "$1" outcome)" "outcome"
    same daemon-lost "$(row "$1" how_known)" "how known"
}

hangs() {
    fresh
    drop_in musterd.service WatchdogSec=2s
    local id pid worker
    id=$(spawn 1000 sh -c 'setsid sleep 1000 & sleep 1000')
    worker=$(row "$id" pid)
    pid=$(property musterd.service MainPID)
    inside kill -STOP "$pid"
    changed() { [ "$(property musterd.service MainPID)" != "$pid" ]; }
    until_true 30 changed
    until_true 30 is_active musterd.service
    journal -u musterd.service -o cat | grep -qi 'watchdog timeout'
    lost_worker "$id" "$worker"
}
scenario "a daemon that hangs is ended by the watchdog, and rows tell of it after the restart" hangs

crashes() {
    fresh
    local id pid worker
    id=$(spawn 1000 sh -c 'setsid sleep 1000 & sleep 1000')
    worker=$(row "$id" pid)
    pid=$(property musterd.service MainPID)
    inside kill -KILL "$pid"
    changed() {
        local now
        now=$(property musterd.service MainPID)
        [ "$now" != "$pid" ] && [ "$now" != 0 ]
    }
    until_true 30 changed
    until_true 30 is_active musterd.service
    lost_worker "$id" "$worker"
    same 0 "$(inside pgrep -c -r D,R,S,T,t -u anna sleep || true)" "left processes"
}
scenario "SIGKILL of the daemon leaves no process of a foreign worker, and rows say so" crashes

crashes_outside() {
    fresh
    inside systemctl stop musterd.socket musterd.service
    # As systemd would start it, but with nobody to clean up: only the parent-death signal.
    inside install -d -o musterd -g musterd -m 711 /run/m-state /run/m-run
    inside setsid -f setpriv --reuid=musterd --regid=musterd --init-groups \
        --inh-caps=+setuid,+setgid,+kill,+setpcap --ambient-caps=+setuid,+setgid,+kill,+setpcap \
        --bounding-set=-all,+setuid,+setgid,+kill,+setpcap --no-new-privs \
        /usr/libexec/musterd --state-dir /run/m-state --runtime-dir /run/m-run \
        --log stderr </dev/null >/dev/null 2>&1
    owned() { inside busctl --system list --acquired --no-legend | grep -q '^org.muster1 '; }
    until_true 10 owned
    spawn 1000 sleep 1000
    inside pgrep -u anna -x sleep || fail "no worker"
    inside kill -KILL "$(inside pgrep -u musterd -x musterd)"
    gone() { ! inside pgrep -u anna -x sleep; }
    until_true 5 gone
    inside rm -rf /run/m-state /run/m-run
}
scenario "outside systemd too, a foreign worker dies with its daemon" crashes_outside

no_policy() {
    fresh
    inside mv /usr/share/dbus-1/system.d/org.muster1.conf /root/
    inside systemctl reload dbus.service
    inside systemctl start --no-block musterd.service
    as anna musterctl --socket /run/musterd.sock list >/dev/null
    same activating "$(property musterd.service ActiveState)" "meanwhile"
    failed_start() { journal -u musterd.service -o cat | grep -q "needs the policy file"; }
    until_true 45 failed_start
    same exit-code "$(property musterd.service Result)" "result"
    inside mv /root/org.muster1.conf /usr/share/dbus-1/system.d/
    inside systemctl reload dbus.service
    inside systemctl stop musterd.service
    call ListWorkers 'a{sv}' 0 >/dev/null
}
scenario "without its bus policy the socket serves meanwhile, then the start fails and names the file" no_policy

name_held() {
    fresh
    local pipe=$root/root/hold
    mkfifo "$pipe"
    inside python3 /root/fixtures/hold_name.py <"$pipe" >"$root/root/hold.out" &
    local holder=$!
    exec 9>"$pipe"
    until_true 10 grep -q held "$root/root/hold.out"
    inside systemctl start --no-block musterd.service
    as anna musterctl --socket /run/musterd.sock list >/dev/null
    same activating "$(property musterd.service ActiveState)" "meanwhile"
    failed_start() { journal -u musterd.service -o cat | grep -q "org.muster1 belongs to pid"; }
    until_true 45 failed_start
    exec 9>&-
    wait "$holder" || true
    rm -f "$pipe" "$root/root/hold.out"
    # The name is free: the restart that systemd makes by itself gets it.
    until_true 40 is_active musterd.service
}
scenario "with its name held by another the socket serves meanwhile, then the start fails and names it" name_held

bus_restarts() {
    fresh
    inside systemctl start musterd.service
    local id pid
    id=$(spawn 1000 sleep 1000)
    pid=$(property musterd.service MainPID)
    inside systemctl restart dbus.service
    owned() { inside busctl --system list --acquired --no-legend | grep -q '^org.muster1 '; }
    until_true 40 owned
    same "$pid" "$(property musterd.service MainPID)" "pid"
    same live "$(row "$id" status)" "worker"
}
scenario "after a restart of the bus it is there again, workers and all" bus_restarts

no_bus() {
    fresh
    inside systemctl stop dbus.socket dbus.service
    as anna musterctl --socket /run/musterd.sock list >/dev/null
    until_true 5 is_active musterd.service
    inside systemctl start dbus.socket dbus.service
    owned() { inside busctl --system list --acquired --no-legend | grep -q '^org.muster1 '; }
    until_true 45 owned
    # It does not come back to a new bus by itself.
    inside systemctl restart systemd-logind.service || true
}
scenario "with no bus at all the socket alone is enough, and the name is taken when one comes" no_bus
