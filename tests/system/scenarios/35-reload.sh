# The running image is replaced by the installed one, or stays.

generation() {
    inside busctl --system get-property org.muster1 /org/muster1 org.muster1.Manager Generation |
        cut -d ' ' -f 2
}

reloads() {
    fresh
    local id pid worker second
    id=$(spawn 1000 sleep 1000)
    worker=$(row "$id" pid)
    pid=$(property musterd.service MainPID)
    inside systemctl reload musterd.service
    same "$pid" "$(property musterd.service MainPID)" "pid"
    same 2 "$(generation)" "generation"
    same running "$(property musterd.service SubState)" "state after the reload"
    inside journalctl --sync
    journal -u musterd.service -o cat | grep -q '^reloaded: generation 2, release ' ||
        fail "the journal does not tell of it"
    same "$worker" "$(row "$id" pid)" "worker"
    same live "$(row "$id" status)" "status"
    # Capabilities went over, and out of the sets that pass execve.
    for set in CapPrm CapEff CapBnd; do
        same 00000000000001e0 "$(inside sed -n "s/^$set:\s*//p" "/proc/$pid/status")" "$set"
    done
    for set in CapInh CapAmb; do
        same 0000000000000000 "$(inside sed -n "s/^$set:\s*//p" "/proc/$pid/status")" "$set"
    done
    second=$(spawn 1001 sleep 1000)
    same "1001 1001 1001 1001" \
        "$(inside sed -n 's/^Uid:\s*//p' "/proc/$(row "$second" pid)/status" | xargs)" "new worker"
    as anna musterctl --socket /run/musterd.sock list >/dev/null
    inside systemctl stop musterd.service
    same success "$(property musterd.service Result)" "result"
    inside test -S /run/musterd.sock
    same cancelled "$(row "$id" outcome)" "outcome"
}
scenario "reload keeps pid, workers, socket and capabilities" reloads

upgraded() {
    fresh
    local id pid worker
    id=$(spawn 1000 sleep 1000)
    worker=$(row "$id" pid)
    pid=$(property musterd.service MainPID)
    inside dpkg -i /root/musterd.deb >/dev/null
    same "$pid" "$(property musterd.service MainPID)" "pid"
    same 2 "$(generation)" "generation"
    same "$worker" "$(row "$id" pid)" "worker"
    same live "$(row "$id" status)" "status"
    is_active musterd.socket
    is_active musterd-gc.timer
    same 0 "$(property musterd.service NRestarts)" "restarts"
    # What runs is the file that was installed, and no deleted one.
    same /usr/libexec/musterd "$(inside readlink "/proc/$pid/exe")" "image"
    inside systemctl stop musterd.service
    inside dpkg -i /root/musterd.deb >/dev/null 2>"$root/root/said"
    is_inactive musterd.service
    grep -i 'reload' "$root/root/said" && fail "an upgrade complains of a service that sleeps"
    rm -f "$root/root/said"
}
scenario "an upgrade of the package reloads and ends no worker, and does not wake a sleeping service" upgraded

# `refused WHAT WORDS`: a reload fails, and all is as before.
refused() {
    local said
    said=$(inside systemctl reload musterd.service 2>&1) && fail "$1: the reload worked"
    printf '%s' "$said" | grep -q "Job for musterd.service failed" || fail "$1: $said"
    same "$main" "$(property musterd.service MainPID)" "$1: pid"
    same running "$(property musterd.service SubState)" "$1: state"
    same 1 "$(generation)" "$1: generation"
    same live "$(row "$id" status)" "$1: worker"
    inside journalctl --sync
    journal -u musterd.service -p err -o cat | grep 'the new image was refused' |
        grep -q -- "$2" || fail "$1: the journal does not say '$2'"
}

install_image() { # FILE INSIDE
    # A running image cannot be written to; it is replaced, as a package does it.
    inside install -m 755 "$1" /usr/libexec/musterd.new
    inside mv /usr/libexec/musterd.new /usr/libexec/musterd
}

image_of() { # C SOURCE
    printf '%s\n' "$1" | inside tee /root/image.c >/dev/null
    inside gcc -o /root/image /root/image.c "${@:2}"
    install_image /root/image
}

refusals() {
    fresh
    local id main began
    id=$(spawn 1000 sleep 1000)
    main=$(property musterd.service MainPID)
    inside cp -a /usr/libexec/musterd /usr/libexec/musterd.good
    # Whatever fails below, the next scenario gets the real program.
    trap 'inside mv -f /usr/libexec/musterd.good /usr/libexec/musterd' EXIT

    configure <<<'[gc]
garce = "1h"'
    refused "a broken configuration" '"garce"; did you mean "grace"'
    inside rm /etc/musterd/musterd.toml

    inside head -c 100000 /usr/libexec/musterd.good | inside tee /root/image >/dev/null
    install_image /root/image
    refused "a truncated program" musterd

    printf 'int there(void) { return 0; }\n' | inside tee /root/lib.c >/dev/null
    inside gcc -shared -fPIC -o /usr/lib/libsoongone.so /root/lib.c
    image_of 'int there(void); int main(void) { return there(); }' -lsoongone
    inside rm /usr/lib/libsoongone.so
    refused "a missing library" 'libsoongone.so'

    image_of '#include <stdio.h>
#include <stdlib.h>
int main(void) { fputs("main panicked at the first line\n", stderr); abort(); }'
    refused "a panic in main" 'main panicked at the first line'

    install_image /root/fixtures/newer_state.py
    refused "a state from a newer release" 'version 999'

    inside rm /usr/libexec/musterd
    refused "no program at all" 'No such file'

    image_of '#include <unistd.h>
int main(void) { for (;;) pause(); }'
    began=$SECONDS
    refused "a program that hangs" 'no answer in 15 s'
    [ $((SECONDS - began)) -lt 30 ] || fail "a hang held the reload for $((SECONDS - began)) s"
    gone() { ! inside pgrep -f trial-fd; }
    until_true 5 gone

    install_image /usr/libexec/musterd.good
    inside systemctl reload musterd.service
    same 2 "$(generation)" "generation"
    same "$main" "$(property musterd.service MainPID)" "pid"
    same live "$(row "$id" status)" "worker"
    inside rm -f /root/image /root/image.c /root/lib.c
    echo "note: 7 refused"
}
scenario "a reload that cannot work is refused with a reason in the journal, and the old image serves on" refusals

# Compares what fixtures/reloads.py has seen with the roll.
judge_reloads() { # FILE ROLL MAIN
    python3 - "$@" <<'EOF'
import json, sys
said, roll, main = sys.argv[1:]
rows = {row["id"]: row for row in json.load(open(roll))}
bad, exits, frames, calls = [], 0, 0, {}
for line in open(said):
    what, *rest = line.split()
    if what in ("lost", "reload", "wait"):
        bad.append(line.strip())
    elif what == "calls":
        calls[rest[0]] = calls.get(rest[0], 0) + int(rest[1])
    elif what == "exit":
        exits += 1
        row = rows.get(rest[0], {})
        if row.get("exit") != {"code": int(rest[1])} or row["outcome"] not in ("completed", "crashed"):
            bad.append(f"{line.strip()}: {row}")
    elif what == "frames":
        # Each told of 1 token in and 2 out.
        row = rows.get(rest[0], {})
        frames += int(rest[1])
        if row.get("tokens") != 3 * int(rest[1]) or row["outcome"] != "completed":
            bad.append(f"{line.strip()}: {row}")
    elif rows.get(rest[0], {}).get("status") != {"live": "live", "ladder": "stopping"}[what]:
        bad.append(f"{line.strip()}: {rows.get(rest[0])}")
print("\n".join(bad[:20]))
print("note: %d exits, %d frames, calls: %s" % (exits, frames, ", ".join(f"{n} by {how}" for how, n in calls.items())))
sys.exit(bool(bad) or exits < 100 or frames < 1000 or len(calls) < 5 or min(calls.values()) < 20)
EOF
}

hundred() {
    fresh
    inside systemctl start musterd.service
    local main count=${RELOADS:-100} id pids began
    main=$(property musterd.service MainPID)
    began=$SECONDS
    inside python3 /root/fixtures/reloads.py "$count" "$((count / 8))" >"$root/root/reloads.out"
    echo "note: $((SECONDS - began)) s for $count reloads;"
    same "$main" "$(property musterd.service MainPID)" "pid"
    same $((count + 1)) "$(generation)" "generation"
    same 0 "$(property musterd.service NRestarts)" "restarts"
    inside musterctl --socket /run/musterd.sock list -a --json=short >"$root/root/roll.json"
    judge_reloads "$root/root/reloads.out" "$root/root/roll.json" "$main"
    # Who lives is a child of the same process as ever.
    pids=$(sed -n 's/^\(live\|ladder\) //p' "$root/root/reloads.out" | while read -r id; do
        inside cat "/sys/fs/cgroup/system.slice/musterd.service/workers/w-$id/cgroup.procs" | head -n 1
    done)
    same 40 "$(printf '%s\n' "$pids" | wc -l)" "live workers"
    same "$main" "$(inside ps -o ppid= -p "$(printf '%s' "$pids" | tr '\n' ,)" | tr -d ' ' | sort -u)" "parents"
    same 40 "$(printf '%s\n' "$pids" | sort -u | wc -l)" "different pids"
    # Theirs is a kill_grace beyond what any stop waits for.
    sed -n 's/^ladder //p' "$root/root/reloads.out" | xargs -d '\n' \
        nsenter -t "$leader" -a -- musterctl --socket /run/musterd.sock cancel --now >/dev/null
    inside systemctl stop musterd.service
    same success "$(property musterd.service Result)" "result"
}
scenario "100 reloads under 50 workers and seven callers lose no worker, call, frame or exit status" hundred
