#!/usr/bin/env bash
# Installs what was built, for packages and by hand. Nothing is built and no network is used.
#   DESTDIR=... PREFIX=/usr packaging/install.sh [DIRECTORY OF THE PROGRAMS]
# Every directory can be set; see the list below.
set -eu
cd "$(dirname "$0")/.."

programs=${1:-${CARGO_TARGET_DIR:-target}/release}
prefix=${PREFIX:-/usr}
bindir=${BINDIR:-$prefix/bin}
libexecdir=${LIBEXECDIR:-$prefix/libexec}
datadir=${DATADIR:-$prefix/share}
libdir=${VENDORDIR:-$prefix/lib}
docdir=${DOCDIR:-$datadir/doc/musterd}
unitdir=${SYSTEMD_UNITDIR:-$libdir/systemd/system}
userunitdir=${SYSTEMD_USERUNITDIR:-$libdir/systemd/user}
presetdir=${SYSTEMD_PRESETDIR:-$libdir/systemd/system-preset}
userpresetdir=${SYSTEMD_USERPRESETDIR:-$libdir/systemd/user-preset}
catalogdir=${CATALOGDIR:-$libdir/systemd/catalog}
sysusersdir=${SYSUSERSDIR:-$libdir/sysusers.d}
dbusdir=${DBUSDATADIR:-$datadir/dbus-1}
polkitdir=${POLKITDIR:-$datadir/polkit-1/actions}

put() { # MODE DIRECTORY FILE... ; a last file NAME= renames it
    local mode=$1 dir=${DESTDIR:-}$2
    shift 2
    install -d "$dir"
    install -m "$mode" -t "$dir" "$@"
}
put_as() { # MODE PATH FILE
    install -D -m "$1" "$3" "${DESTDIR:-}$2"
}
# Units and activation files name the programs: other prefixes are put in.
put_unit() { # DIRECTORY FILE...
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

put_unit "$unitdir" packaging/systemd/musterd{,-gc}.service packaging/systemd/musterd.socket \
    packaging/systemd/musterd-gc.timer
put_unit "$userunitdir" packaging/systemd/user/musterd{,-gc}.service \
    packaging/systemd/user/musterd.socket packaging/systemd/user/musterd-gc.timer
# The name that the activation files give: activation works without an enabled service.
ln -sf musterd.service "${DESTDIR:-}$unitdir/dbus-org.muster1.service"
ln -sf musterd.service "${DESTDIR:-}$userunitdir/dbus-org.muster1.service"
put 644 "$presetdir" packaging/systemd/50-musterd.preset
put 644 "$userpresetdir" packaging/systemd/user/50-musterd.preset
put 644 "$catalogdir" packaging/systemd/musterd.catalog
put_as 644 "$sysusersdir/musterd.conf" packaging/systemd/musterd.sysusers

put 644 "$dbusdir/system.d" packaging/dbus/org.muster1.conf
put 644 "$dbusdir/system-services" packaging/dbus/system-services/org.muster1.service
put 644 "$dbusdir/services" packaging/dbus/services/org.muster1.service
put 644 "$dbusdir/interfaces" packaging/dbus/org.muster1.*.xml
put 644 "$polkitdir" packaging/dbus/org.muster1.policy

put 644 "$libdir/musterd" config/musterd.toml
put 644 "$docdir" README.md CHANGELOG.md SECURITY.md docs/*.md
put 644 "$docdir/examples" packaging/systemd/examples/*
put 755 "$docdir/examples" examples/worker.sh examples/worker.py
put_as 644 "$docdir/examples/org.muster1.rules" packaging/dbus/org.muster1.rules.example
