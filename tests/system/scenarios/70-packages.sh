# The package over its life: upgrade, downgrade, removal, purge, and back again.

new_version=$(dpkg-deb -f "$deb" Version)
old_version=0.0.9

# The same source as a package of a lower version, whose programs answer with that version.
# Built when it is needed; suites run side by side.
older_package() {
    [ ! -f "$root/root/older.deb" ] || return 0
    local built=${MUSTERD_OLDER_DEB:-}
    (
        flock 9
        if [ -z "$built" ]; then
            built=$(MUSTERD_PROFILE=dev MUSTERD_VERSION=$old_version packaging/deb/build.sh 2>/dev/null |
                tail -n 1)
        fi
        cp "$built" "$root/root/older.deb"
    ) 9>"$target/older-package.lock"
}

install_package() { # FILE
    inside dpkg -i "/root/$1" >"$root/root/said" 2>&1 || {
        cat "$root/root/said"
        return 1
    }
}
purge_package() { inside dpkg -P musterd >/dev/null; }
version() {
    inside busctl --system get-property org.muster1 /org/muster1 org.muster1.Manager Version |
        cut -d '"' -f 2
}
ctl() { inside musterctl --socket /run/musterd.sock "$@"; }

# Whatever became of it, the next scenario finds the package installed.
installed_again() {
    if ! inside test -x /usr/libexec/musterd ||
        [ "$(inside dpkg-query -W -f '${Version}' musterd)" != "$new_version" ]; then
        install_package musterd.deb
    fi
    inside systemctl start musterd.socket
}

# `twenty`: 15 that live and 5 that ignore the stop signal while their ladders wait for ten
# minutes. Writes `ID PID STATUS` lines.
twenty() {
    local n id ids=() stubborn=()
    for n in $(seq 15); do ids+=("$(spawn $((1000 + n % 2)) sleep 1000)"); done
    for n in $(seq 5); do
        id=$(ctl run --quiet --uid 1000 -d / --kill-grace 10min -- \
            sh -c 'trap "" TERM; echo deaf >"/tmp/deaf-$1"; while :; do sleep 1; done' sh "$n")
        until_true 10 inside test -e "/tmp/deaf-$n"
        stubborn+=("$id")
    done
    inside rm -f /tmp/deaf-1 /tmp/deaf-2 /tmp/deaf-3 /tmp/deaf-4 /tmp/deaf-5
    ctl cancel --no-block "${stubborn[@]}" >/dev/null
    in_ladder() { [ "$(row "$1" rung)" = term ]; }
    for id in "${stubborn[@]}"; do until_true 20 in_ladder "$id"; done
    roll "${ids[@]}" "${stubborn[@]}"
}
roll() { # ID...
    local id
    for id in "$@"; do echo "$id $(row "$id" pid) $(row "$id" status)"; done
}
ids_of() { cut -d ' ' -f 1 <<<"$1"; }

upgrade() {
    older_package
    trap installed_again EXIT
    purge_package
    install_package older.deb
    fresh
    inside systemctl start musterd.service
    same "$old_version" "$(version)" "version before"
    local before main stopping
    before=$(twenty)
    same 20 "$(wc -l <<<"$before")" "workers"
    same 5 "$(grep -c ' stopping$' <<<"$before")" "workers in mid-ladder"
    main=$(property musterd.service MainPID)

    install_package musterd.deb
    same "$new_version" "$(version)" "version after"
    same "$main" "$(property musterd.service MainPID)" "pid"
    same 0 "$(property musterd.service NRestarts)" "restarts"
    same "$before" "$(roll $(ids_of "$before"))" "workers after the upgrade"
    same "$main" "$(inside ps -o ppid= -p "$(cut -d ' ' -f 2 <<<"$before" | xargs | tr ' ' ,)" | tr -d ' ' | sort -u)" "parents"
    spawn 1000 true >/dev/null

    # And back: the older program reads what the newer one hands over.
    install_package older.deb
    same "$old_version" "$(version)" "version after the downgrade"
    same "$before" "$(roll $(ids_of "$before"))" "workers after the downgrade"
    same "$main" "$(property musterd.service MainPID)" "pid after the downgrade"

    stopping=$(grep ' stopping$' <<<"$before" | cut -d ' ' -f 1 | head -n 1)
    ctl cancel --now $(ids_of "$before") >/dev/null
    same "cancelled kill" "$(row "$stopping" outcome) $(row "$stopping" rung)" "end of a ladder"
    inside systemctl stop musterd.service
    same success "$(property musterd.service Result)" "result"
}
scenario "a package upgrade with 20 workers, 5 of them in mid-ladder, ends none and changes no pid; so does a downgrade" upgrade

# A downgrade whose program cannot take over leaves the newer one serving, and the package whole.
refused_downgrade() {
    older_package
    trap installed_again EXIT
    fresh
    local id pid main
    id=$(spawn 1000 sleep 1000)
    pid=$(row "$id" pid)
    main=$(property musterd.service MainPID)
    # In the place of a hand-over that the older program does not know: no hand-over is taken.
    drop_in musterd.service ExecReload= 'ExecReload=/bin/sh -c "echo too new for it >&2; exit 1"'
    install_package older.deb
    grep -q 'goes on with the program it has been running' "$root/root/said" ||
        fail "nothing is said of it: $(cat "$root/root/said")"
    same "$old_version" "$(inside dpkg-query -W -f '${Version}' musterd)" "package"
    same "$new_version" "$(version)" "version that serves"
    same "$main" "$(property musterd.service MainPID)" "pid"
    same "$pid" "$(row "$id" pid)" "worker"
    inside rm -rf /run/systemd/system/musterd.service.d
    inside systemctl daemon-reload
    install_package musterd.deb
    same live "$(row "$id" status)" "worker"
}
scenario "a package whose program cannot take over leaves the running one serving, and the package is installed all the same" refused_downgrade

# Files of rows as they lie on the disk: `as_row FILE` puts it there as musterd's.
as_row() {
    inside tee "/var/lib/musterd/rows/$1.toml" >/dev/null
    inside chown musterd:musterd "/var/lib/musterd/rows/$1.toml"
    inside chmod 600 "/var/lib/musterd/rows/$1.toml"
}
# What a row says of itself, without what counts from now.
told() { ctl show "$@" --json=short; }

rows_of_versions() {
    older_package
    trap installed_again EXIT
    purge_package
    install_package older.deb
    fresh
    local done killed before newer=9zzzzzzz
    done=$(ctl run --quiet --uid 1000 -d / --name 'made by the older' --kind subagent:h1 \
        --memory-max 1G --deadline 1h -- sh -c 'exit 3')
    killed=$(ctl run --quiet --uid 1001 -d / -- sleep 1000)
    wait_end "$done"
    ctl cancel --now --reason 'for the record' "$killed" >/dev/null
    before=$(told "$done" "$killed")
    inside systemctl stop musterd.service musterd.socket
    as_row 7c9zkq3m <tests/fixtures/rows/v1-full.toml
    as_row 00000001 <tests/fixtures/rows/v1-least.toml
    sed "s/^schema = 1/schema = 999/; s/^id = .*/id = \"$newer\"/; s/^name = .*/name = \"from the future\"/" \
        tests/fixtures/rows/v1-full.toml | as_row "$newer"
    local sum
    sum=$(inside sha256sum "/var/lib/musterd/rows/$newer.toml")

    install_package musterd.deb
    inside systemctl start musterd.socket
    same "$before" "$(told "$done" "$killed")" "rows of the older version"
    same "fix the flaky test" "$(row 7c9zkq3m name)" "the fullest row"
    # It claimed to come up, and there is no process for it.
    same exited "$(row 00000001 status)" "the least row"
    same 0 "$(inside find /var/lib/musterd/quarantine -type f | wc -l)" "files in quarantine"

    # Shown, and neither judged nor touched, by any version.
    local round
    for round in newer older; do
        ctl list -a --no-legend | grep -q "$newer" || fail "$round: the newer row is not listed"
        same "from the future" "$(row "$newer" name)" "$round: name"
        [ -n "$(row "$newer" read_only)" ] || fail "$round: it is not said to be read-only"
        ctl reap --grace 0 >/dev/null
        ctl forget --force "$newer" 2>"$root/root/said" && fail "$round: it was forgotten"
        grep -q newer "$root/root/said" || fail "$round: $(cat "$root/root/said")"
        inside systemctl restart musterd.service
        same "$sum" "$(inside sha256sum "/var/lib/musterd/rows/$newer.toml")" "$round: bytes"
        [ "$round" = older ] || install_package older.deb
    done
    install_package musterd.deb
    same "from the future" "$(row "$newer" name)" "after the upgrade"
    same "$sum" "$(inside sha256sum "/var/lib/musterd/rows/$newer.toml")" "bytes at last"
}
scenario "after a package upgrade rows of the older version stay readable, and one of a newer version is shown and never rewritten" rows_of_versions

remove_and_back() {
    fresh
    trap installed_again EXIT
    local ended id pid files
    ended=$(spawn 1000 true)
    wait_end "$ended"
    id=$(spawn 1000 sleep 1000)
    pid=$(row "$id" pid)
    inside dpkg -r musterd >/dev/null
    inside test ! -d "/proc/$pid"
    inside test ! -e /run/musterd.sock
    inside test ! -e /run/musterd
    files=$(inside sh -c 'cd /var/lib/musterd/rows && echo *')
    same "$(printf '%s\n' "$ended.toml" "$id.toml" | sort | xargs)" "$(xargs -n 1 <<<"$files" | sort | xargs)" "rows"
    same "" "$(inside systemctl list-units --all --no-legend --plain 'musterd*' | grep -v not-found)" "units"

    install_package musterd.deb
    is_active musterd.socket
    is_active musterd-gc.timer
    same cancelled "$(row "$id" outcome)" "outcome of who was alive"
    same completed "$(row "$ended" outcome)" "outcome of who had ended"
    same live "$(row "$(spawn 1000 sleep 1000)" status)" "a new worker"
}
scenario "package removal ends the workers and keeps the roll, and a new installation goes on with it" remove_and_back

gone_paths() {
    local path
    for path in /var/lib/musterd /etc/musterd /run/musterd /run/musterd.sock \
        /var/lib/systemd/timers/stamp-musterd-gc.timer /etc/needrestart/conf.d/musterd.conf \
        /usr/libexec/musterd; do
        ! inside test -e "$path" || fail "$path is still there" || return 1
    done
    same "" "$(inside find /etc/systemd /var/lib/systemd/deb-systemd-helper-enabled \
        /var/lib/systemd/deb-systemd-user-helper-enabled -name '*musterd*' 2>/dev/null)" "links of units"
}

purge() {
    fresh
    trap installed_again EXIT
    inside rm -rf /home/anna/tree /home/ben/own
    as anna git init -q /home/anna/tree
    as anna sh -c 'echo draft >/home/anna/tree/notes.txt'
    local id pid own own_pid
    id=$(ctl run --quiet --uid 1000 -d /home/anna/tree --worktree /home/anna/tree -- sleep 1000)
    pid=$(row "$id" pid)
    spawn 1001 sleep 1000 >/dev/null
    # A user's own daemon, with a worker of its own.
    own=(env MUSTERD_STATE_DIR=/home/ben/own musterctl)
    own_pid=$(as ben "${own[@]}" show "$(as ben "${own[@]}" run -q -d /home/ben -- sleep 1000)" \
        --json=short | field pid)
    configure <<<'[gc]
grace = "1h"'
    # Links that lead out of it, and somebody's checkout in it.
    inside ln -s /home/anna/tree /var/lib/musterd/rows/way-out
    inside mkdir -p /var/lib/musterd/checkout/.git
    inside touch /var/lib/musterd/checkout/work.txt
    local said
    said=$(inside dpkg -P musterd)
    inside test ! -d "/proc/$pid"
    inside test -d "/proc/$own_pid"
    same draft "$(inside cat /home/anna/tree/notes.txt)" "what lies in a worktree"
    inside test -d /home/ben/own/rows
    same checkout "$(inside ls -A /var/lib/musterd)" "what is not musterd's"
    inside test -e /var/lib/musterd/checkout/work.txt
    grep -q '/var/lib/musterd is kept' <<<"$said" || fail "not told: $said"
    inside rm -rf /var/lib/musterd
    gone_paths

    # Again, and by its script, with nothing left.
    purge_package
    inside rm -rf /root/control
    inside dpkg-deb -e /root/musterd.deb /root/control
    inside /root/control/postrm purge
    inside /root/control/postrm purge
    inside rm -rf /root/control
    gone_paths

    install_package musterd.deb
    same 0 "$(ctl list -a --json=short | python3 -c 'import json,sys; print(len(json.load(sys.stdin)))')" "rows"
    as ben "${own[@]}" drain --exit >/dev/null
    ended() { ! inside test -d "/proc/$own_pid"; }
    until_true 20 ended
    inside rm -rf /home/anna/tree /home/ben/own
}
scenario "a package purge with workers alive ends them, takes what musterd has written and nothing else, and can be repeated" purge

with_pieces_missing() {
    trap installed_again EXIT
    fresh
    spawn 1000 true >/dev/null
    inside systemctl stop musterd.service
    inside rm -rf /var/lib/musterd/rows /var/lib/musterd/lock /usr/libexec/musterd \
        /usr/lib/systemd/system/musterd.socket /usr/lib/systemd/system/musterd-gc.timer \
        /usr/lib/sysusers.d/musterd.conf /usr/share/dbus-1/system.d/org.muster1.conf
    inside userdel musterd
    purge_package
    gone_paths

    # The roll on another disk, by a link.
    install_package musterd.deb
    inside systemctl stop musterd.socket musterd.service
    inside rm -rf /var/lib/musterd
    inside mkdir -p /srv/roll
    inside touch /srv/roll/mine
    inside ln -s /srv/roll /var/lib/musterd
    purge_package
    inside test -e /srv/roll/mine
    gone_paths
    inside rm -rf /srv/roll

    install_package musterd.deb
    inside getent passwd musterd >/dev/null
    same live "$(row "$(spawn 1000 sleep 1000)" status)" "a worker"
}
scenario "a package purge with pieces missing works, and what is installed after it serves" with_pieces_missing
