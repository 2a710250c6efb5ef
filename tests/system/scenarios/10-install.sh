# The package itself.

install_it() {
    inside dpkg -i /root/musterd.deb
    inside getent passwd musterd
    is_active musterd.socket
    is_active musterd-gc.timer
    same enabled "$(inside systemctl is-enabled musterd.socket)" "socket"
    is_inactive musterd.service
    for user in anna ben; do
        inside useradd --create-home --shell /bin/bash "$user"
        inside chmod 700 "/home/$user"
    done
    # The bus took the new policy although its user is as new: else nobody could own the name.
    inside journalctl -b --no-pager -u dbus.service | grep 'Unknown username "musterd"' &&
        echo "note: the bus complained at unpack"
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
