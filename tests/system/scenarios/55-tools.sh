# The service through the tools of systemd and D-Bus, as an operator uses them.

log_level() {
    fresh
    inside systemctl start musterd.service
    same info "$(inside systemctl service-log-level musterd.service)" "level as shipped"
    same journal "$(inside systemctl service-log-target musterd.service)" "target"
    inside systemctl service-log-level musterd.service debug
    same debug "$(inside systemctl service-log-level musterd.service)" "level"
    as anna systemctl service-log-level musterd.service info 2>/dev/null && fail "anna set it"
    same debug "$(inside systemctl service-log-level musterd.service)" "level after anna"
    # Somebody who does not speak the protocol is worth a line at that level only.
    as anna python3 -c 'import socket
peer = socket.socket(socket.AF_UNIX)
peer.connect("/run/musterd.sock")
peer.send(b"hello\n")
peer.recv(1)' || true
    logged() { journal -u musterd.service -p debug..debug -o cat | grep -q .; }
    until_true 5 logged
    inside systemctl service-log-level musterd.service info
    same 2 "$(journal -u musterd.service -o cat MESSAGE_ID=fb09a5aae10d43738fc11099b319680c | grep -c 'log level')" "told"
}
scenario "systemctl service-log-level reads and sets the level, for who may" log_level

introspects() {
    fresh
    local id
    id=$(spawn 1000 sleep 1000)
    inside busctl --system --xml-interface introspect org.muster1 /org/muster1 >"$root/root/manager.xml"
    inside busctl --system --xml-interface introspect org.muster1 "/org/muster1/worker/$id" >"$root/root/worker.xml"
    python3 - "$root" <<'EOF'
import sys
import xml.etree.ElementTree as tree

def shape(element):
    items = sorted(element.attrib.items())
    return (element.tag, tuple(items), tuple(shape(child) for child in element))

root = sys.argv[1]
for file, name in (("manager", "org.muster1.Manager"), ("worker", "org.muster1.Worker")):
    served = tree.parse(f"{root}/root/{file}.xml").getroot()
    shipped = tree.parse(f"{root}/usr/share/dbus-1/interfaces/{name}.xml").getroot()
    found = [i for i in served.iter("interface") if i.get("name") == name]
    wanted = [i for i in shipped.iter("interface") if i.get("name") == name]
    assert len(found) == len(wanted) == 1, name
    served, shipped = shape(found[0])[2], shape(wanted[0])[2]
    assert served == shipped, [(a, b) for a, b in zip(served, shipped) if a != b][:3]
EOF
    # As people read it.
    inside busctl --system introspect org.muster1 /org/muster1 | grep -q '^\.NWorkers *property *u *1 '
    inside busctl --system introspect org.muster1 "/org/muster1/worker/$id" | grep -q '^\.Status *property *s *"live"'
    inside busctl --system tree org.muster1 >"$root/root/tree"
    for path in /org/freedesktop/LogControl1 /org/muster1/worker "/org/muster1/worker/$id"; do
        grep -q -- "$path\$" "$root/root/tree" || fail "no $path in: $(cat "$root/root/tree")"
    done
    inside busctl --system status org.muster1 | grep -q '^Unit=musterd.service' || fail "no unit of the name"
    rm -f "$root"/root/*.xml "$root/root/tree"
}
scenario "busctl introspect shows the shipped interfaces, busctl tree the workers" introspects

life_in_journal() {
    fresh
    local id said
    id=$(call Spawn 'a{sv}' 6 argv as 3 sh -c 'echo working; exec sleep 1000' uid u 1000 cwd s / \
        env as 1 PATH=/usr/bin:/bin name s tidy trace-id s trace-4711 |
        sed -n 's/^soa{sv} "\([a-z0-9]*\)".*/\1/p')
    call Cancel 'ssa{sv}' "$id" 'seen enough' 0 >/dev/null
    wait_end "$id"
    inside journalctl --sync
    said=$(journal "MUSTER_WORKER=$id" -o cat)
    same "worker $id started, pid" "$(printf '%s' "$said" | sed -n '1s/ [0-9]*$//p')" "first"
    printf '%s' "$said" | grep -q "worker $id: signal 15 to its group" || fail "$said"
    printf '%s' "$said" | tail -n 1 | grep -q "worker $id cancelled: signal 15" || fail "$said"
    same 3 "$(printf '%s\n' "$said" | wc -l)" "lines of a life"
    # The fields, and the catalog's words with them put in.
    for field in MUSTER_NAME=tidy MUSTER_OWNER=1000 MUSTER_KIND=command MUSTER_TRACE=trace-4711; do
        same 3 "$(journal "MUSTER_WORKER=$id" "$field" -o cat | wc -l)" "$field"
    done
    same 1 "$(journal "MUSTER_WORKER=$id" MUSTER_OUTCOME=cancelled -o cat | wc -l)" "outcome"
    said=$(journal -x "MUSTER_WORKER=$id" MESSAGE_ID=a4b2eb60858c426892e8f9da76d3bb83)
    printf '%s' "$said" | grep -q "Subject: Worker $id ended: cancelled" || fail "$said"
    printf '%s' "$said" | grep -q "See \"musterctl status $id\"" || fail "$said"
    printf '%s' "$said" | grep -q '@MUSTER' && fail "a field was not put in: $said"
    # All of it is the service's, at the priority that is meant.
    same 3 "$(journal -u musterd.service -t musterd "MUSTER_WORKER=$id" -p info..info -o cat | wc -l)" "priority"
    same working "$(journal -t "muster-$id" -o cat)" "its own words"
    as anna musterctl --socket /run/musterd.sock logs "$id" | grep -q working
}
scenario "the journal tells a worker's life by MUSTER_WORKER, and journalctl -x what it means" life_in_journal

floods() {
    fresh
    local flood quiet n began slowest=0 took
    quiet=$(spawn 1000 sleep 1000)
    flood=$(spawn 1001 timeout 10 yes 'a line of a worker that does not stop')
    # The daemon is not in the way of the data, so it answers as ever.
    for n in $(seq 20); do
        began=$(date +%s%N)
        call Status s "" >/dev/null
        took=$((($(date +%s%N) - began) / 1000000))
        [ "$took" -le "$slowest" ] || slowest=$took
    done
    [ "$slowest" -lt 3000 ] || fail "a call took $slowest ms"
    inside musterctl --socket /run/musterd.sock wait "$flood" --timeout=60 >/dev/null || true
    same 124 "$(row "$flood" exit.code)" "the flood's exit"
    call Cancel 'ssa{sv}' "$quiet" 'after the flood' 0 >/dev/null
    wait_end "$quiet"
    told() { journal "MUSTER_WORKER=$1" "MESSAGE_ID=$2" -u musterd.service -o cat | grep -q .; }
    # journald has a backlog by now.
    until_true 60 told "$quiet" 945c4772e9dd4c18b6dee7d41d7c12f6
    until_true 60 told "$quiet" a4b2eb60858c426892e8f9da76d3bb83
    until_true 60 told "$flood" a4b2eb60858c426892e8f9da76d3bb83
    journal -u musterd.service -o cat | grep -i 'suppressed\|log lines were dropped' && fail "lines were lost"
    n=$(journal -t "muster-$flood" -o cat | wc -l)
    [ "$n" -ge 10000 ] || fail "the flood was $n lines only"
    echo "note: $n lines, slowest call meanwhile $slowest ms"
    inside journalctl --quiet --rotate --vacuum-size=10M >/dev/null 2>&1
}
scenario "a worker that floods its output for 10 s neither slows nor silences the daemon" floods

past_the_streams() {
    fresh
    configure <<<'[workers]
journal_streams = 2'
    local n ids=() paths
    for n in 1 2 3; do
        ids+=("$(spawn 1000 sh -c "echo word $n; exec sleep 1000")")
    done
    same "" "$(row "${ids[0]}" output)$(row "${ids[1]}" output)" "files of the first two"
    paths=$(row "${ids[2]}" output)
    [ -n "$paths" ] || fail "the third has no file"
    for n in 1 2 3; do
        said() { as anna musterctl --socket /run/musterd.sock logs "${ids[$((n - 1))]}" | grep -q "word $n"; }
        until_true 10 said
    done
    # One that has ended makes room.
    call Cancel 'ssa{sv}' "${ids[0]}" '' 1 now b true >/dev/null
    wait_end "${ids[0]}"
    n=$(spawn 1000 true)
    same "" "$(row "$n" output)" "file of the next"
}
scenario "past the journal's streams output goes to files, logs finds both, and room is used again" past_the_streams

status_page() {
    fresh
    local id said
    id=$(spawn 1000 sh -c 'exec sleep 1000')
    inside systemctl start musterd-gc.service
    has_it() { inside systemctl status --no-pager musterd.service | grep -q 'Status: "1 worker running, 1 row on the roll."'; }
    until_true 5 has_it
    said=$(inside systemctl status --no-pager --full musterd.service musterd.socket musterd-gc.timer musterd-gc.service || true)
    for words in 'musterd.service - Roll of agent workers' 'Active: active (running)' \
        'TriggeredBy: . musterd.socket' 'Docs: man:musterd(8)' '├─supervisor' '└─workers' \
        "w-$id" 'Listen: /run/musterd.sock (Stream)' 'Active: active (listening)\|Active: active (running)' \
        'Trigger: .* left' 'Triggers: . musterd-gc.service'; do
        printf '%s\n' "$said" | grep -q -- "$words" || fail "no '$words' in:
$said"
    done
    # Nothing in it is a warning; PrivateNetwork= cannot have all its ways in a container.
    printf '%s\n' "$said" | grep -v 'loopback network device' | grep -i 'warn\|error\|fail\|deprecat\|unknown' && fail "it complains"
    inside systemctl list-timers --no-pager | grep 'musterd-gc.timer' | grep -q 'musterd-gc.service'
    inside systemctl list-sockets --no-pager | grep '/run/musterd.sock' | grep -q 'musterd.service'
    [ -z "${SHOW:-}" ] || printf '%s\n' "$said"
}
scenario "systemctl status, list-timers and list-sockets show what there is, without a complaint" status_page
