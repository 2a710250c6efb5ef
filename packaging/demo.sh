#!/usr/bin/env bash
# The main job, end to end, on a throw-away git repository with linked worktrees and a private
# daemon: start workers, look at them, end one, collect the dead. Leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export PATH=$target/debug:$PATH
top=$(mktemp -d /tmp/muster-demo.XXXXXX)
export MUSTERD_STATE_DIR=$top/state MUSTERD_RUNTIME_DIR=$top/run MUSTERD_BIN=$target/debug/musterd
unset MUSTER_WORKER MUSTER_SOCKET

end_daemon() {
    local pid
    pid=$(sed -n '1s/[^0-9].*//p' "$top/state/lock" 2>/dev/null || true)
    if [ -n "$pid" ] && [ "$(readlink "/proc/$pid/exe" 2>/dev/null)" = "$target/debug/musterd" ]; then
        kill -TERM "$pid"
        tail --pid="$pid" -f /dev/null
    fi
    rm -rf "$top"
}
trap end_daemon EXIT

# A verb as one would type it, and what it prints. `status` of an ended worker returns 3.
show() {
    local word line='$'
    for word; do
        [[ $word =~ ^[a-zA-Z0-9./_-]+$ ]] || word=${word@Q}
        line+=" $word"
    done
    printf '\n%s\n' "$line"
    "$@" 2>&1 || true
}

git init -q -b main "$top/repo"
cd "$top/repo"
git config user.name demo
git config user.email demo@localhost
echo hello >file
git add file
git commit -q -m start
git worktree add -q ../fix-parser
git worktree add -q ../write-docs

cd "$top/fix-parser"
show musterctl run --wait --name fix-parser -- sh -c 'sleep 1000 & sleep 0.2; cat file'
cd "$top/write-docs"
show musterctl run --wait --name write-docs -- sh -c 'echo draft > notes.txt'
show musterctl run --detach --name stubborn -- sh -c 'trap "" TERM; while :; do sleep 1; done'
show musterctl list -a
show musterctl cancel stubborn --reason "enough"
show musterctl status fix-parser
show musterctl reap --dry-run --grace 0
show musterctl reap --grace 0
show musterctl list -a
