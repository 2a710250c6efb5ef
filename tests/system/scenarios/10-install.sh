# The package itself.

install_it() {
    # Whatever a user of apt does, with what a bare system has.
    inside env DEBIAN_FRONTEND=noninteractive apt-get install --no-install-recommends -qq -y \
        -o Dpkg::Use-Pty=0 /root/musterd.deb
    inside getent passwd musterd
    is_active musterd.socket
    is_active musterd-gc.timer
    same enabled "$(inside systemctl is-enabled musterd.socket)" "socket"
    is_inactive musterd.service
    for user in anna ben; do
        inside useradd --create-home --shell /bin/bash "$user"
        inside chmod 700 "/home/$user"
    done
    # The bus took the new policy although its user is as new.
    inside journalctl -b --no-pager -u dbus.service | grep 'Unknown username "musterd"' &&
        fail "the bus read the policy before there was its user"
    # What a person sees first. 3: it sleeps.
    local said
    said=$(inside systemctl status musterd.service musterd.socket) || [ $? -eq 3 ] || return 1
    grep -q 'Active: active (listening)' <<<"$said" || fail "systemctl status: $said"
    grep -q 'Active: inactive (dead)' <<<"$said" || fail "systemctl status: $said"
    inside systemctl list-timers --no-legend | grep -q 'musterd-gc.timer *musterd-gc.service' ||
        fail "the timer is not listed"
    call GetMetrics | grep -q musterd_spawned_total
    until_true 10 is_active musterd.service
}
scenario "the package installs, and the first call on the bus wakes the service" install_it

verify_units() {
    local output
    output=$(inside systemd-analyze verify --man=no --recursive-errors=one \
        /usr/lib/systemd/system/musterd.service /usr/lib/systemd/system/musterd.socket \
        /usr/lib/systemd/system/musterd-gc.service /usr/lib/systemd/system/musterd-gc.timer 2>&1)
    same "" "$output" "systemd-analyze verify"
    output=$(inside env XDG_RUNTIME_DIR=/run systemd-analyze verify --user --man=no --recursive-errors=one \
        /usr/lib/systemd/user/musterd.service /usr/lib/systemd/user/musterd.socket \
        /usr/lib/systemd/user/musterd-gc.service /usr/lib/systemd/user/musterd-gc.timer 2>&1)
    same "" "$output" "systemd-analyze verify --user"
}
scenario "all units pass systemd-analyze verify" verify_units

exposure() {
    inside systemd-analyze security --offline=true --threshold=40 \
        /usr/lib/systemd/system/musterd.service >/tmp/exposure.$$ || {
        tail -n 3 /tmp/exposure.$$
        rm -f /tmp/exposure.$$
        return 1
    }
    echo "note: $(tail -n 1 /tmp/exposure.$$ | tr -d '→')"
    rm -f /tmp/exposure.$$
}
scenario "the service's exposure is 4.0 at most as shipped" exposure

catalog() {
    local entries
    inside journalctl --update-catalog
    entries=$(inside journalctl --list-catalog | grep -c ' musterd: ')
    same "$(grep -c '^-- ' packaging/systemd/musterd.catalog)" "$entries" "catalog entries"
}
scenario "the journal knows every message of the catalog" catalog

first_run() {
    fresh
    local said id
    said=$(as anna sh -c 'cd && musterctl run --name first -- sh -c "echo hello from here; sleep 1000"' 2>&1)
    grep -q 'Running as worker [a-z0-9]* (first)' <<<"$said" || fail "run: $said"
    is_active musterd.service
    id=$(sed -n 's/^Running as worker \([a-z0-9]*\) .*/\1/p' <<<"$said")
    same "1000 live" "$(inside stat -c %u "/proc/$(row "$id" pid)") $(row "$id" status)" "worker"
    as anna musterctl | grep -q "$id *first *live" || fail "list: $(as anna musterctl)"
    as anna musterctl status first | grep -q "$id" || fail "status"
    as anna musterctl cancel first | grep -q 'cancelled' || fail "cancel"
    grep -qi 'private' <<<"$said" && fail "a private daemon was started: $said"
    inside systemctl status musterd.service | grep -q 'Active: active (running)' || fail "systemctl status"
}
scenario "a user's first run on the freshly installed package works, with no option and no set-up" first_run

shells() {
    fresh
    local id page
    id=$(spawn 1000 sleep 1000)
    # Every page that is named by a unit, a program or another page is there.
    for page in man1/musterctl.1 man1/musterctl-run.1 man5/musterd.toml.5 man5/org.muster1.5 \
        man8/musterd.8 man8/musterd.service.8 man8/musterd.socket.8 man8/musterd-gc.timer.8; do
        inside gzip -t "/usr/share/man/$page.gz" || fail "no page $page"
    done
    same "$id" "$(inside bash -c '. /usr/share/bash-completion/completions/musterctl
        COMP_WORDS=(musterctl cancel ""); COMP_CWORD=2
        _musterctl_with_workers musterctl "" cancel; echo "${COMPREPLY[*]}"')" "bash, a worker"
    same "cancel" "$(inside bash -c '. /usr/share/bash-completion/completions/musterctl
        COMP_WORDS=(musterctl canc); COMP_CWORD=1
        _musterctl_with_workers musterctl canc musterctl; echo "${COMPREPLY[*]}"')" "bash, a verb"
    # A key pressed starts no daemon.
    inside systemctl stop musterd.socket musterd.service
    same "" "$(as ben musterctl __candidates)" "nothing to complete"
    same "" "$(inside pgrep -u ben || true)" "processes of ben"
}
scenario "manual pages and completions are installed, and completion knows the workers" shells
