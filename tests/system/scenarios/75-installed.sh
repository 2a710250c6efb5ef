# The acceptance tests of the package, and an installation without a package.

# As autopkgtest runs them, test by test, on the machine where the package is installed.
acceptance() {
    fresh
    inside rm -rf /root/tests
    cp -r packaging/deb/tests "$root/root/tests"
    inside chmod 755 /root /root/tests
    local name ran=0 user as_who
    # Without needs-root a test is an ordinary user's.
    while read -r name user; do
        inside mkdir -p "/tmp/adt-$name"
        inside chown "$user" "/tmp/adt-$name"
        as_who=(as "$user")
        [ "$user" != root ] || as_who=(inside)
        "${as_who[@]}" env AUTOPKGTEST_TMP="/tmp/adt-$name" "/root/tests/$name" </dev/null ||
            fail "test $name: exit code $?"
        inside rm -rf "/tmp/adt-$name"
        ran=$((ran + 1))
    done < <(python3 - packaging/deb/tests/control <<'EOF'
import re, sys
for part in open(sys.argv[1]).read().split("\n\n"):
    fields = dict(re.findall(r"^(\S+): (.*)$", part, re.M))
    for name in fields["Tests"].split():
        print(name, "root" if "needs-root" in fields["Restrictions"] else "ben")
EOF
    )
    inside chmod 700 /root
    inside rm -rf /root/tests
    same 4 "$ran" "tests"
}
scenario "the acceptance tests of the package pass on the installed package" acceptance

# `make install` with PREFIX=/usr/local, and the three lines that it prints.
by_hand() {
    trap by_hand_ends EXIT
    inside dpkg -P musterd >/dev/null
    inside userdel musterd
    rm -rf "$root/root/programs" "$target/system/local-$suite"
    mkdir -p "$root/root/programs" "$target/system/local-$suite"
    dpkg-deb -x "$deb" "$root/root/programs"
    mv "$root/root/programs/usr/bin/musterctl" "$root/root/programs/usr/libexec/musterd" \
        "$root/root/programs/"
    DESTDIR=$target/system/local-$suite PREFIX=/usr/local packaging/install.sh "$root/root/programs"
    cp -a "$target/system/local-$suite/." "$root/"
    inside systemd-sysusers musterd.conf
    inside systemctl daemon-reload
    inside systemctl reload dbus.service
    inside systemctl enable --now musterd.socket musterd-gc.timer
    local id
    id=$(as anna musterctl run --quiet -d / -- sleep 1000)
    same "1000 live" "$(inside stat -c %u "/proc/$(row "$id" pid)") $(row "$id" status)" "worker"
    same /usr/local/libexec/musterd \
        "$(inside readlink "/proc/$(property musterd.service MainPID)/exe")" "program"
    # Bus policy, polkit's actions, configuration and reload are where they are looked for.
    as ben busctl --system call org.muster1 /org/muster1 org.muster1.Manager Spawn 'a{sv}' 2 \
        argv as 1 true cwd s / >/dev/null
    as ben musterctl --system check-config | grep -q /usr/lib/musterd/musterd.toml ||
        fail "the vendor's configuration is not read"
    inside systemctl reload musterd.service
    same live "$(row "$id" status)" "worker after a reload"
    inside systemctl start musterd-gc.service
    # A private daemon is found beside it.
    as ben env MUSTERD_STATE_DIR=/home/ben/own sh -c \
        'cd && musterctl run --wait -- true && musterctl drain --exit' >/dev/null
    inside rm -rf /home/ben/own
}
by_hand_ends() {
    inside systemctl disable --now musterd.socket musterd-gc.timer 2>/dev/null || true
    inside systemctl stop musterd.service 2>/dev/null || true
    (cd "$target/system/local-$suite" && find . ! -type d -print0) |
        (cd "$root" && xargs -0 rm -f)
    rm -rf "$target/system/local-$suite" "$root/root/programs"
    inside systemctl daemon-reload
    inside dpkg -i /root/musterd.deb >/dev/null 2>&1
}
scenario "an installation by hand below /usr/local serves users, bus, polkit, reload and timer" by_hand
