#!/bin/sh
# A worker that tells musterd of itself with systemd-notify, from any shell.
#
#   musterctl run --control=notify --name=example -- examples/worker.sh [ROUNDS]
#   musterctl status example
#
# musterd gives it a NOTIFY_SOCKET of its own. Every message counts as progress, but for
# WATCHDOG=1, which only says that it is still there.
set -eu

rounds=${1:-3}
round=0

say() {
    # Also outside of musterd, where nobody listens.
    [ -z "${NOTIFY_SOCKET:-}" ] || systemd-notify "$@"
}

# The stop signal: the round under way is finished, which may take longer than usual.
stop() {
    trap '' TERM
    say STOPPING=1 EXTEND_TIMEOUT_USEC=10000000 "STATUS=stopping in round $round"
    say "STATUS=stopped after $round rounds"
    exit 0
}
trap stop TERM

say READY=1 "STATUS=ready for $rounds rounds"
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    say "STATUS=round $round of $rounds"
    # A round that takes a while. In the background: a shell runs its traps between commands.
    sleep 0.2 &
    wait $!
    say WATCHDOG=1
done
say "STATUS=all $rounds rounds done"

# What systemd has no message for: tokens used, and that the turn is done.
if [ -n "${MUSTER_WORKER:-}" ] && command -v musterctl >/dev/null; then
    musterctl report --input 1200 --output 80 --turn-done
fi
