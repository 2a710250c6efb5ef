# Who may do what, and what polkit has to do with it.

polkit_rules() {
    inside mkdir -p /etc/polkit-1/rules.d
    inside tee /etc/polkit-1/rules.d/10-test.rules >/dev/null
    inside systemctl restart polkit.service
}
no_polkit_rules() {
    inside rm -f /etc/polkit-1/rules.d/10-test.rules
    inside systemctl unmask --runtime --quiet polkit.service
    inside systemctl restart polkit.service
}

some_users() {
    local user
    for user in carla dora; do
        inside getent passwd "$user" >/dev/null || inside useradd --create-home --shell /bin/bash "$user"
    done
}

# 124 is the first that takes a pidfd.
old_polkit() { inside pkcheck --version | awk '{ exit !($NF < 124) }'; }

rights_over() { # bus|socket
    fresh
    some_users
    polkit_rules <<'EOF'
polkit.addRule(function(action, subject) {
    if (action.id.indexOf("org.muster1.") != 0) return undefined;
    if (subject.user == "carla") return polkit.Result.NO;
    if (subject.user == "dora") return polkit.Result.YES;
});
EOF
    inside systemctl start musterd.service
    local old=
    if old_polkit; then old=old-polkit; fi
    inside python3 /root/fixtures/rights.py "$1" $old
    no_polkit_rules
}
rights_bus() { rights_over bus; }
rights_socket() { rights_over socket; }
scenario "every cell of the table of rights holds on the bus" rights_bus
scenario "every cell of the table of rights holds on the socket" rights_socket

hints_at_the_bus() {
    fresh
    local id said
    id=$(spawn 1001 sleep 1000)
    said=$(as anna dbus-send --peer=unix:path=/run/musterd.sock --print-reply --type=method_call \
        /org/muster1 org.muster1.Manager.GetWorker "string:$id" 2>&1) || true
    if old_polkit; then
        printf '%s' "$said" | grep -q 'AccessDenied.*musterctl --system' || fail "$said"
    else
        printf '%s' "$said" | grep -q "/org/muster1/worker/$id" || fail "$said"
    fi
    # musterctl goes on over the bus by itself, with the same question.
    as anna musterctl --socket /run/musterd.sock show "$id" --json=short | grep -q "$id"
    as anna musterctl show "$id" --json=short | grep -q "$id"
}
scenario "where polkit is too old for the socket the refusal names the bus, and musterctl goes there" hints_at_the_bus

leaks() {
    fresh
    some_users
    local id listener seen=$root/root/seen
    # The bus gives a monitor to root only.
    as carla timeout 5 busctl --system monitor org.muster1 >"$seen" 2>&1 && fail "carla monitors"
    grep -qi 'denied\|not permitted\|not allowed' "$seen" || fail "$(cat "$seen")"
    inside busctl --system monitor org.muster1 >"$seen.root" 2>&1 &
    local monitor=$!
    # Falls back to what everybody may hear.
    as carla dbus-monitor --system "sender='org.muster1'" >"$seen" 2>&1 &
    listener=$!
    until_true 10 grep -q . "$seen"
    inside systemctl start musterd.service
    id=$(call Spawn 'a{sv}' 8 argv as 4 sh -c 'exec sleep 1000' secret-argv uid u 1000 \
        cwd s /home/anna env as 2 PATH=/usr/bin:/bin SECRET=secret-env name s secret-name \
        kind s subagent kind-fields 'a{sv}' 1 handle s secret-handle trace-id s secret-trace |
        sed -n 's/^soa{sv} "\([a-z0-9]*\)".*/\1/p')
    [ -n "$id" ]
    call Cancel 'ssa{sv}' "$id" secret-reason 1 now b true >/dev/null
    wait_end "$id"
    call Forget 'sa{sv}' "$id" 0 >/dev/null
    until_true 10 grep -q 'member=WorkerRemoved' "$seen"
    until_true 10 grep -q 'Member=WorkerRemoved' "$seen.root"
    inside pkill -f -- '--system.*org.muster1'
    wait "$listener" "$monitor" 2>/dev/null || true
    for member in WorkerNew WorkerExited WorkerRemoved; do
        grep -q "member=$member" "$seen" || fail "carla did not hear $member"
        grep -q "Member=$member" "$seen.root" || fail "root did not see $member"
    done
    grep -q "$id" "$seen" || fail "no id in the signals"
    # Root's monitor sees the call itself, so the words did pass the bus.
    grep -q secret-argv "$seen.root" || fail "root's monitor saw no call"
    grep -o 'secret-[a-z]*' "$seen" && fail "the signals tell what only the owner may know"
    inside rm -f /root/seen /root/seen.root
}
scenario "a third user hears ids and states of others and cannot listen in" leaks

# `took LIMIT COMMAND...`: works within so many seconds.
took() {
    local limit=$1 began=$SECONDS
    shift
    "$@" || return
    [ $((SECONDS - began)) -le "$limit" ] || fail "$((SECONDS - began)) s: $*"
}

user_call() { # USER METHOD ...
    local user=$1 method=$2
    shift 2
    as "$user" busctl --system --timeout=40 --allow-interactive-authorization=no call -- org.muster1 /org/muster1 org.muster1.Manager "$method" "$@"
}

# What goes on without polkit: owners with their rows, root with all.
without_polkit() { # OWN FOREIGN LIMIT
    took "$3" user_call anna Freeze 'sa{sv}' "$1" 0
    took "$3" user_call anna Thaw 'sa{sv}' "$1" 0
    took "$3" call Freeze 'sa{sv}' "$2" 0
    took "$3" call Thaw 'sa{sv}' "$2" 0
}

polkit_stopped() {
    fresh
    local own foreign said
    own=$(spawn 1000 sleep 1000)
    foreign=$(spawn 1001 sleep 1000)
    inside systemctl mask --runtime --quiet polkit.service
    inside systemctl stop polkit.service
    without_polkit "$own" "$foreign" 4
    said=$(user_call anna Cancel 'ssa{sv}' "$foreign" x 0 2>&1) && fail "anna cancelled ben's"
    printf '%s' "$said" | grep -q 'Access denied' || fail "$said"
    user_call anna Spawn 'a{sv}' 1 argv as 1 true && fail "anna started one without polkit"
    # Looking is no error: one's own.
    said=$(user_call anna ListWorkers 'a{sv}' 0)
    printf '%s' "$said" | grep -q "$own" || fail "own row is not listed"
    printf '%s' "$said" | grep -q "$foreign" && fail "ben's row is listed"
    same live "$(row "$foreign" status)" "ben's"
    no_polkit_rules
    user_call anna Spawn 'a{sv}' 3 argv as 1 true cwd s / env as 1 PATH=/usr/bin >/dev/null
}
scenario "without polkit everybody has its own rows, root all, and nothing else is granted" polkit_stopped

polkit_slow() {
    fresh
    local own foreign pid began slow n
    own=$(spawn 1000 sleep 1000)
    foreign=$(spawn 1001 sleep 1000)
    inside systemctl start polkit.service
    pid=$(property polkit.service MainPID)
    inside kill -STOP "$pid"
    began=$SECONDS
    slow=()
    for n in 1 2 3 4 5 6 7 8; do
        user_call anna Cancel 'ssa{sv}' "$foreign" x 0 >"$root/root/slow.$n" 2>&1 &
        slow+=($!)
    done
    # Everybody else is served meanwhile, in less than polkit is given.
    without_polkit "$own" "$foreign" 4
    took 4 as anna musterctl --socket /run/musterd.sock show "$own" >/dev/null
    for n in "${slow[@]}"; do
        wait "$n" && fail "a call was granted by a polkit that hangs"
    done
    [ $((SECONDS - began)) -ge 4 ] || fail "refused after $((SECONDS - began)) s already"
    [ $((SECONDS - began)) -le 20 ] || fail "eight calls waited $((SECONDS - began)) s"
    grep -q 'Access denied' "$root/root/slow.8" || fail "$(cat "$root/root/slow.8")"
    inside kill -CONT "$pid"
    same live "$(row "$foreign" status)" "ben's"
    rm -f "$root"/root/slow.*
    said=$(user_call anna Cancel 'ssa{sv}' "$foreign" x 0 2>&1) && fail "anna cancelled ben's"
    printf '%s' "$said" | grep -q 'password' || fail "it did not come back: $said"
}
scenario "a polkit that hangs is a no after 5 s and delays nobody else" polkit_slow

polkit_asks() {
    fresh
    local foreign said
    foreign=$(spawn 1001 sleep 1000)
    # As shipped: an administrator's password, and nobody there to type one.
    said=$(user_call anna Cancel 'ssa{sv}' "$foreign" x 0 2>&1) && fail "anna cancelled ben's"
    printf '%s' "$said" | grep -q 'asks for a password, and the call does not allow' || fail "$said"
    said=$(as anna busctl --system --allow-interactive-authorization=yes call -- org.muster1 \
        /org/muster1 org.muster1.Manager Cancel 'ssa{sv}' "$foreign" x 0 2>&1) && fail "without a password"
    printf '%s' "$said" | grep -q 'Access denied' || fail "asked, and nobody there: $said"
    same live "$(row "$foreign" status)" "ben's"
    # The shipped example lets a group manage all; and a rule that denies is a no.
    inside groupadd -f agents
    inside usermod -aG agents anna
    inside cat /usr/share/doc/musterd/examples/org.muster1.rules | polkit_rules
    said=$(user_call ben Spawn 'a{sv}' 3 argv as 1 true cwd s / env as 1 PATH=/usr/bin 2>&1) &&
        fail "ben is in neither group"
    printf '%s' "$said" | grep -q 'Access denied' || fail "$said"
    user_call anna Spawn 'a{sv}' 3 argv as 1 true cwd s / env as 1 PATH=/usr/bin >/dev/null
    user_call anna Cancel 'ssa{sv}' "$foreign" 'anna may' 0 >/dev/null
    wait_end "$foreign"
    same cancelled "$(row "$foreign" outcome)" "outcome"
    same 1000 "$(row "$foreign" cancelled.by)" "by whom"
    inside gpasswd -d anna agents >/dev/null
    no_polkit_rules
}
scenario "polkit asks, denies and grants as its rules say, the shipped example among them" polkit_asks
