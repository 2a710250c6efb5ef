# The daemon stands still, or is shot.

frozen_with_all() {
    fresh
    # In a frozen group SIGABRT waits and SIGKILL does not.
    drop_in musterd.service WatchdogSec=2s TimeoutAbortSec=4s
    local id pid worker
    id=$(spawn 1000 sh -c 'setsid sleep 1000 & sleep 1000')
    worker=$(row "$id" pid)
    pid=$(property musterd.service MainPID)
    trap 'inside systemctl thaw musterd.service 2>/dev/null || true' EXIT
    inside systemctl freeze musterd.service
    same frozen "$(property musterd.service FreezerState)" "freezer"
    changed() {
        local now
        now=$(property musterd.service MainPID)
        [ "$now" != "$pid" ] && [ "$now" != 0 ]
    }
    # systemd 252 ends it, later ones let their watchdog wait too.
    if until_true 10 changed; then
        journal -u musterd.service -o cat | grep -qi 'watchdog timeout'
        until_true 30 is_active musterd.service
        lost_worker "$id" "$worker"
        same 0 "$(inside pgrep -c -r D,R,S,T,t -u anna sleep || true)" "left processes"
        echo "note: ended while frozen"
    else
        inside systemctl thaw musterd.service
        same live "$(row "$id" status)" "worker"
        same "$worker" "$(row "$id" pid)" "its pid"
        same "$pid" "$(property musterd.service MainPID)" "pid"
        echo "note: goes on after the thaw"
    fi
    call Cancel 'ssa{sv}' "$id" '' 0 >/dev/null
    wait_end "$id"
    same 0 "$(inside pgrep -c -r D,R,S,T,t -u anna sleep || true)" "processes in the end"
}
scenario "frozen with all its workers for longer than the watchdog it tells the truth afterwards" frozen_with_all

frozen_alone() {
    fresh
    local id pid n ids=() group
    for n in 1 2 3 4 5; do
        ids+=("$(spawn 1000 sh -c "until [ -e /home/anna/go ]; do sleep 0.05; done; exit $((n + 20))")")
    done
    pid=$(property musterd.service MainPID)
    group=/sys/fs/cgroup$(inside sed -n 's/^0:://p' "/proc/$pid/cgroup")
    printf 1 | inside tee "$group/cgroup.freeze" >/dev/null
    as anna touch /home/anna/go
    ended() { [ "$(inside pgrep -u anna -r S,R -c -x sh || true)" = 0 ]; }
    until_true 10 ended
    # A call waits for the thaw.
    as anna musterctl --socket /run/musterd.sock list >/dev/null &
    local waiting=$!
    printf 0 | inside tee "$group/cgroup.freeze" >/dev/null
    wait "$waiting"
    for n in 1 2 3 4 5; do
        wait_end "${ids[$((n - 1))]}"
        same $((n + 20)) "$(row "${ids[$((n - 1))]}" exit.code)" "exit code"
        same waited "$(row "${ids[$((n - 1))]}" how_known)" "how known"
    done
    same "$pid" "$(property musterd.service MainPID)" "pid"
    inside rm -f /home/anna/go
}
scenario "frozen for less than the watchdog it misses no exit of its workers" frozen_alone

worker_shot() {
    fresh
    same continue "$(property musterd.service OOMPolicy)" "OOMPolicy"
    local id pid
    id=$(spawn 1000 sleep 1000)
    pid=$(property musterd.service MainPID)
    # What the kernel does to a worker that is out of memory. There is no memory controller in
    # this container: the killer itself is met in the virtual machine.
    inside kill -KILL "$(row "$id" pid)"
    wait_end "$id"
    same crashed "$(row "$id" outcome)" "outcome"
    same 9 "$(row "$id" exit.signal)" "signal"
    same "$pid" "$(property musterd.service MainPID)" "pid"
    same success "$(property musterd.service Result)" "result"
    inside grep -q '^-\?[0-9]*$' "/proc/$pid/oom_score_adj"
}
scenario "a worker that is shot costs the service nothing" worker_shot
