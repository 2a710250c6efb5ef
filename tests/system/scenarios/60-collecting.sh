# One policy, three triggers.

counts() { tr -s ' \n' ' ' | grep -o '"[a-z:-]*" [0-9]*' | sort | tr '\n' ' '; }

three_triggers() {
    fresh
    local n ids=()
    for n in 1 2 3; do ids+=("$(spawn 1000 true)"); done
    ids+=("$(spawn 1001 sleep 1000)")
    for n in 0 1 2; do wait_end "${ids[$n]}"; done
    local bus verb timer
    bus=$(call Reap 'a{sv}' 1 dry-run b true)
    verb=$(inside musterctl --socket /run/musterd.sock reap --dry-run --json=short)
    inside systemctl start musterd-gc.service
    timer=$(journal -u musterd-gc.service -o cat)
    for n in 0 1 2 3; do
        printf '%s' "$bus" | grep -q "${ids[$n]}" || fail "the bus does not tell of ${ids[$n]}"
        printf '%s' "$verb" | grep -q "${ids[$n]}" || fail "the verb does not tell of ${ids[$n]}"
    done
    for word in within-grace live; do
        printf '%s' "$bus" | grep -q "$word" || fail "bus: no $word"
        printf '%s' "$verb" | grep -q "$word" || fail "verb: no $word"
        printf '%s' "$timer" | grep -q "$word" || fail "timer: no $word in $timer"
    done
}
scenario "timer, verb and bus give the same report" three_triggers
