# Who wakes a sleeping service, and how it goes to sleep.

socket_wakes() {
    fresh
    as anna musterctl --socket /run/musterd.sock list >/dev/null
    until_true 10 is_active musterd.service
    same "running" "$(property musterd.socket SubState)" "socket"
}
scenario "the first call on the socket wakes a sleeping service" socket_wakes

bus_wakes() {
    fresh
    call ListWorkers 'a{sv}' 0 >/dev/null
    until_true 10 is_active musterd.service
}
scenario "the first call on the bus wakes a sleeping service" bus_wakes

timer_wakes() {
    fresh
    inside systemctl list-timers --no-legend | grep -q 'musterd-gc.timer *musterd-gc.service'
    inside systemctl start musterd-gc.service
    same success "$(property musterd-gc.service Result)" "sweep"
    until_true 10 is_active musterd.service
}
scenario "the timer's service wakes a sleeping service and sweeps as a plain client" timer_wakes

start_serves() {
    fresh
    inside systemctl start musterd.service
    same 1 "$(inside busctl --system list --acquired --no-legend | grep -c '^org.muster1 ')" "name"
    call ListWorkers 'a{sv}' 0 >/dev/null
    same notify "$(property musterd.service Type)" "type"
}
scenario "systemctl start returns when socket and name are served" start_serves

has_status() { property musterd.service StatusText | grep -q "^$1"; }
status_line() {
    fresh
    local first second
    first=$(spawn 0 sleep 1000)
    until_true 5 has_status '1 worker running, 1 row '
    second=$(spawn 0 sleep 1000)
    until_true 5 has_status '2 workers running, 2 rows '
    inside systemctl status musterd.service | grep -q 'Status: "2 workers running'
    call Cancel 'ssa{sv}' "$first" test 1 now b true >/dev/null
    call Cancel 'ssa{sv}' "$second" test 1 now b true >/dev/null
    until_true 10 has_status '0 workers running, 2 rows '
}
scenario "the status line follows the count of workers" status_line

gaps_lose_nothing() {
    fresh
    configure <<<'[service]
idle_exit = "1s"'
    inside systemctl start musterd.service
    local wanted=${IDLE_EXITS:-12} calls=0 gap
    RANDOM=4711
    idle_exits() { journal -u musterd.service -o cat | grep -c '^musterd.service: Deactivated'; }
    while [ "$(idle_exits)" -lt "$wanted" ]; do
        gap=$((500 + RANDOM * 1000 / 32768))
        sleep "$((gap / 1000)).$(printf %03d $((gap % 1000)))"
        if [ $((calls % 2)) -eq 0 ]; then
            call ListWorkers 'a{sv}' 0 >/dev/null
        else
            as anna musterctl --socket /run/musterd.sock list >/dev/null
        fi
        calls=$((calls + 1))
        [ $calls -lt $((wanted * 6)) ] || fail "only $(idle_exits) idle exits in $calls calls"
    done
    same 0 "$(property musterd.service NRestarts)" "restarts"
    same success "$(property musterd.service Result)" "result"
    echo "note: $calls calls, $(idle_exits) idle exits, none lost"
}
scenario "no call is lost against idle exits, by bus and by socket" gaps_lose_nothing

worker_keeps_awake() {
    fresh
    configure <<<'[service]
idle_exit = "1s"'
    local id
    id=$(spawn 0 sleep 3)
    same 0 "$(journal -u musterd.service -o cat | grep -c Deactivated || true)" "exits"
    wait_end "$id"
    same completed "$(row "$id" outcome)" "outcome"
    until_true 10 is_inactive musterd.service
    # And its row is there again after the next start.
    same exited "$(row "$id" status)" "status"
}
scenario "a service with a worker does not sleep, and its roll outlives the sleep" worker_keeps_awake

restarted() {
    fresh
    local id
    id=$(spawn 0 sleep 1000)
    inside systemctl restart musterd.service
    is_active musterd.socket
    same exited "$(row "$id" status)" "status"
    same cancelled "$(row "$id" outcome)" "outcome"
    inside systemctl stop musterd.service
    is_active musterd.socket
    is_inactive musterd.service
    # The socket's file is still there and wakes it.
    as anna musterctl --socket /run/musterd.sock list >/dev/null
    until_true 10 is_active musterd.service
}
scenario "restart ends the workers in order, and the socket outlives a stop" restarted
