# What an agent runtime uses, as two users of one service: terminals, adoption, sd_notify, frames.

ctl_as() { # USER ARGUMENT...
    local user=$1
    shift
    as "$user" musterctl --socket /run/musterd.sock "$@"
}

on_a_terminal() {
    fresh
    local said code=0
    # The terminal is made by script(1), outside of the service and of its sandbox.
    said=$(as anna script -qefc "musterctl --socket /run/musterd.sock run --quiet --pty -- \
        sh -c 'tty; id -un; stty size; exit 7'" /dev/null </dev/null) || code=$?
    same 7 "$code" "the worker's status: $said"
    grep -q /dev/pts/ <<<"$said" || fail "no terminal: $said"
    # Between what script(1) makes of the end of its own input.
    grep -q anna <<<"$said" || fail "somebody else: $said"
}
scenario "a worker on a user's terminal has it as its own, under the user's ids" on_a_terminal

adopts() {
    fresh
    local pid said id
    pid=$(as anna sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
    said=$(ctl_as ben adopt "$pid" 2>&1) && fail "ben adopts a process of anna's: $said"
    grep -q "only one's own processes" <<<"$said" || fail "refused with: $said"
    id=$(ctl_as anna adopt --quiet "$pid")
    same 1000 "$(row "$id" owner.uid)" "owner"
    ctl_as ben cancel "$id" >/dev/null 2>&1 && fail "ben ends a worker of anna's"
    inside systemctl reload musterd.service
    inside systemctl restart musterd.service
    inside test -d "/proc/$pid" || fail "a restart has ended it"
    same live "$(row "$id" status)" "after a restart"
    ctl_as anna cancel "$id" >/dev/null
    gone() { ! inside test -d "/proc/$pid"; }
    until_true 10 gone
    same cancelled "$(row "$id" outcome)" "outcome"
}
scenario "a user's process is adopted by its user only, outlives the service and ends on its user's word" adopts

examples() {
    fresh
    local notify frames doc=/usr/share/doc/musterd/examples
    notify=$(ctl_as anna run --quiet --detach --control=notify -- "$doc/worker.sh")
    frames=$(ctl_as ben run --quiet --detach --control=frames --tokens-max=100000 -- python3 "$doc/worker.py")
    wait_end "$notify" "$frames"
    same completed "$(row "$notify" outcome)" "worker.sh"
    same completed "$(row "$frames" outcome)" "worker.py"
    same True "$(row "$frames" settled)" "worker.py has settled"
    [ "$(row "$frames" tokens.input)" -gt 0 ] || fail "worker.py has told of no tokens"
    # Its socket and its channel are its own: another user gets at neither.
    inside ls /run/musterd/w 2>/dev/null | grep . && fail "a directory of an ended worker is left"
    true
}
scenario "the example workers run as they are installed, each under its user" examples

reports() {
    fresh
    local id
    id=$(ctl_as anna run --quiet --detach --tokens-max=500 -- \
        sh -c 'while musterctl report --input 100; do sleep 0.1; done; sleep 1000')
    wait_end "$id"
    same token-budget "$(row "$id" cancelled.reason)" "why it was ended"
    same 1000 "$(row "$id" owner.uid)" "owner"
}
scenario "a budget ends a user's worker that only ever reports" reports
