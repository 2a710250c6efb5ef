# The user's own instance.

user_ctl() { # USER ARGUMENTS OF systemctl...
    local user=$1
    shift
    as "$user" env XDG_RUNTIME_DIR="/run/user/$(inside id -u "$user")" systemctl --user "$@"
}

# Not by loginctl: logind 257 looks the caller's cgroup up, and ours is outside the container's.
linger() {
    inside mkdir -p /var/lib/systemd/linger
    inside touch "/var/lib/systemd/linger/$1"
    inside systemctl start "user@$(inside id -u "$1").service"
    until_true 20 inside test -S "/run/user/$(inside id -u "$1")/bus"
}

user_instance() {
    inside systemctl stop musterd.socket musterd.service
    linger anna
    user_ctl anna start musterd.socket
    # Other scenarios count her processes.
    trap 'user_ctl anna stop musterd.socket musterd.service' EXIT
    same 600 "$(inside stat -c %a /run/user/1000/musterd.sock)" "socket"
    local run="env XDG_RUNTIME_DIR=/run/user/1000 musterctl"
    local id
    id=$(as anna $run run --quiet -- sleep 1000)
    # The socket serves a moment before the start is over.
    user_active() { [ "$(user_ctl anna show -P ActiveState musterd.service)" = active ]; }
    until_true 10 user_active
    local pid
    pid=$(as anna $run show "$id" --json=short | field pid)
    inside cat "/proc/$pid/cgroup" | grep -q "user@1000.service/.*musterd.service/workers/w-$id\$"
    as anna env XDG_RUNTIME_DIR=/run/user/1000 busctl --user call org.muster1 /org/muster1 \
        org.muster1.Manager ListWorkers 'a{sv}' 0 | grep -q "$id"
    # Nobody else, not by the socket and not by the bus.
    as ben musterctl --socket /run/user/1000/musterd.sock list && fail "ben came in"
    user_ctl anna start musterd-gc.service
    user_ctl anna stop musterd.service
    gone() { ! inside test -d "/proc/$pid"; }
    until_true 10 gone
    # Woken by its bus name.
    as anna env XDG_RUNTIME_DIR=/run/user/1000 busctl --user call org.muster1 /org/muster1 \
        org.muster1.Manager ListWorkers 'a{sv}' 0 >/dev/null
    as anna $run show "$id" --json=short | field status | grep -q exited
    user_ctl anna stop musterd.socket musterd.service
    inside systemctl start musterd.socket
}
scenario "the user instance is woken by socket and session bus, and serves its user alone" user_instance
