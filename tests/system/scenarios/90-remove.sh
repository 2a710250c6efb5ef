# The package goes.

removed() {
    fresh
    local id pid
    id=$(spawn 1000 sleep 1000)
    pid=$(row "$id" pid)
    inside dpkg -r musterd
    inside test ! -d "/proc/$pid"
    inside test ! -S /run/musterd.sock
    inside test -d /var/lib/musterd/rows
    inside dpkg -P musterd
    inside test ! -e /var/lib/musterd
    inside getent passwd musterd >/dev/null
    same "" "$(inside systemctl list-units --all --no-legend --plain 'musterd*' | grep -v not-found)" "units"
}
scenario "removal ends workers and units, purge takes the state" removed
