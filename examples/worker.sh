#!/bin/sh
# A worker of musterd that speaks sd_notify(3), by systemd-notify(1).
#
#   musterctl run --control notify -- sh worker.sh
#
# NOTIFY_SOCKET is the worker's own socket at musterd; docs/control-channel.md says what each
# message means.
set -eu

steps=${1:-3}
trap 'systemd-notify STOPPING=1 --status="cancelled"; exit 143' TERM

systemd-notify --ready --status="starting"
step=0
while [ "$step" -lt "$steps" ]; do
    step=$((step + 1))
    systemd-notify --status="step $step of $steps"
    sleep 0.1 &
    # A shell runs its trap only between two commands; `wait` is interrupted.
    wait $!
done
systemd-notify STOPPING=1 --status="done"
