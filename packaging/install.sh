#!/usr/bin/env bash
# Installs what was built, for packages and by hand. Nothing is built and no network is used.
#   DESTDIR=... PREFIX=/usr packaging/install.sh [DIRECTORY OF THE PROGRAMS]
# Every directory can be set; see the list below. Under another prefix than /usr, what belongs to
# other services goes where they look for it: the bus policy to /etc, polkit's actions, the
# vendor configuration, the catalog and the user to /usr.
set -eu
cd "$(dirname "$0")/.."

programs=${1:-${CARGO_TARGET_DIR:-target}/release}
prefix=${PREFIX:-/usr}
host=/usr
[ "$prefix" = /usr ] || host_policy=/etc/dbus-1/system.d
bindir=${BINDIR:-$prefix/bin}
libexecdir=${LIBEXECDIR:-$prefix/libexec}
datadir=${DATADIR:-$prefix/share}
libdir=${LIBDIR:-$prefix/lib}
vendordir=${VENDORDIR:-$host/lib/musterd}
mandir=${MANDIR:-$datadir/man}
bashcompdir=${BASHCOMPDIR:-$datadir/bash-completion/completions}
zshcompdir=${ZSHCOMPDIR:-$datadir/zsh/site-functions}
fishcompdir=${FISHCOMPDIR:-$datadir/fish/vendor_completions.d}
docdir=${DOCDIR:-$datadir/doc/musterd}
unitdir=${SYSTEMD_UNITDIR:-$libdir/systemd/system}
userunitdir=${SYSTEMD_USERUNITDIR:-$libdir/systemd/user}
presetdir=${SYSTEMD_PRESETDIR:-$libdir/systemd/system-preset}
userpresetdir=${SYSTEMD_USERPRESETDIR:-$libdir/systemd/user-preset}
catalogdir=${CATALOGDIR:-$host/lib/systemd/catalog}
sysusersdir=${SYSUSERSDIR:-$host/lib/sysusers.d}
dbusdir=${DBUSDATADIR:-$datadir/dbus-1}
dbuspolicydir=${DBUSPOLICYDIR:-${host_policy:-$dbusdir/system.d}}
polkitdir=${POLKITDIR:-$host/share/polkit-1/actions}

put() { # MODE DIRECTORY FILE... ; a last file NAME= renames it
    local mode=$1 dir=${DESTDIR:-}$2
    shift 2
    install -d "$dir"
    install -m "$mode" -t "$dir" "$@"
}
put_as() { # MODE PATH FILE
    install -D -m "$1" "$3" "${DESTDIR:-}$2"
}
# Units and pages name the programs: other prefixes are put in.
put_naming() { # DIRECTORY FILE...
    local dir=$1 file
    shift
    install -d "${DESTDIR:-}$dir"
    for file in "$@"; do
        sed -e "s|/usr/libexec/musterd|$libexecdir/musterd|; s|/usr/bin/musterctl|$bindir/musterctl|" \
            "$file" >"${DESTDIR:-}$dir/$(basename "$file")"
        chmod 644 "${DESTDIR:-}$dir/$(basename "$file")"
    done
}

put 755 "$bindir" "$programs/musterctl"
put 755 "$libexecdir" "$programs/musterd"

put_naming "$unitdir" packaging/systemd/musterd{,-gc}.service packaging/systemd/musterd.socket \
    packaging/systemd/musterd-gc.timer
put_naming "$userunitdir" packaging/systemd/user/musterd{,-gc}.service \
    packaging/systemd/user/musterd.socket packaging/systemd/user/musterd-gc.timer
# The name that the activation files give: activation works without an enabled service.
ln -sf musterd.service "${DESTDIR:-}$unitdir/dbus-org.muster1.service"
ln -sf musterd.service "${DESTDIR:-}$userunitdir/dbus-org.muster1.service"
put 644 "$presetdir" packaging/systemd/50-musterd.preset
put 644 "$userpresetdir" packaging/systemd/user/50-musterd.preset
put 644 "$catalogdir" packaging/systemd/musterd.catalog
put_as 644 "$sysusersdir/musterd.conf" packaging/systemd/musterd.sysusers

put 644 "$dbuspolicydir" packaging/dbus/org.muster1.conf
put 644 "$dbusdir/system-services" packaging/dbus/system-services/org.muster1.service
put 644 "$dbusdir/services" packaging/dbus/services/org.muster1.service
put 644 "$dbusdir/interfaces" packaging/dbus/org.muster1.*.xml
put 644 "$polkitdir" packaging/dbus/org.muster1.policy

put 644 "$vendordir" config/musterd.toml

put 644 "$datadir/metainfo" packaging/org.muster1.musterd.metainfo.xml

put 644 "$mandir/man1" packaging/man/*.1
put 644 "$mandir/man5" packaging/man/*.5
put_naming "$mandir/man8" packaging/man/*.8
for unit in musterd.socket musterd-gc.service musterd-gc.timer; do
    ln -sf musterd.service.8 "${DESTDIR:-}$mandir/man8/$unit.8"
done
put_as 644 "$bashcompdir/musterctl" packaging/completions/musterctl.bash
put 644 "$zshcompdir" packaging/completions/_musterctl
put 644 "$fishcompdir" packaging/completions/musterctl.fish

put 644 "$docdir" README.md CHANGELOG.md SECURITY.md docs/*.md
put 644 "$docdir/examples" packaging/systemd/examples/*
put 755 "$docdir/examples" examples/worker.sh examples/worker.py
put_as 644 "$docdir/examples/org.muster1.rules" packaging/dbus/org.muster1.rules.example

# A package says the rest itself.
if [ -z "${DESTDIR:-}" ]; then
    cat <<END
musterd is installed. To let it serve:
    systemd-sysusers musterd.conf
    systemctl daemon-reload && systemctl reload dbus.service
    systemctl enable --now musterd.socket musterd-gc.timer
END
fi
