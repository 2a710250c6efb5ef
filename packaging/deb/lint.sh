#!/usr/bin/env bash
# Looks at a built Debian package with what Debian has for that, and holds the release notes to it.
#   packaging/deb/lint.sh [PACKAGE]
# MUSTERD_WRITE_NOTES=1 writes the list of files into the release notes.
set -eu
cd "$(dirname "$0")/../.."

deb=${1:-$(ls "$(realpath -m "${CARGO_TARGET_DIR:-target}")"/deb/musterd_*.deb)}
changes=${deb%.deb}.changes
bad=0
step() { printf '%s: ' "$1"; }
no() {
    echo "FAIL"
    bad=1
}

step "lintian, no error and no warning"
# As root it has to be told that this is meant.
if lintian --allow-root --fail-on error,warning --tag-display-limit 0 "$changes"; then
    echo ok
else
    no
fi

step "manual pages"
said=$(for page in packaging/man/*.[1-8]; do
    groff -ww -z -man -Tutf8 "$page" 2>&1
    ! command -v mandoc >/dev/null || mandoc -Tlint -Wwarning "$page" 2>&1
done)
[ -z "$said" ] && echo ok || { echo "$said"; no; }

step "completions"
if bash -n packaging/completions/musterctl.bash &&
    { ! command -v zsh >/dev/null || zsh -n packaging/completions/_musterctl; } &&
    { ! command -v fish >/dev/null || fish -n packaging/completions/musterctl.fish; }; then
    echo ok
else
    no
fi

step "XML"
if xmllint --noout --nonet packaging/dbus/*.xml packaging/dbus/*.conf packaging/dbus/*.policy &&
    appstreamcli validate --no-net packaging/*.metainfo.xml >/dev/null; then
    echo ok
else
    no
fi

step "the files that the release notes list"
# Theirs are between the marks; a link has no target there, and whether a document is long enough
# to be compressed does not matter.
files_of() {
    dpkg-deb -c "$1" | awk '$1 !~ /^d/ { sub(/\.gz$/, "", $6); print substr($6, 2) }' | LC_ALL=C sort
}
packed=$(files_of "$deb")
if [ -n "${MUSTERD_WRITE_NOTES:-}" ]; then
    sed -i -e '/^<!-- files -->/,/^<!-- end -->/{/^<!--/!d}' \
        -e "/^<!-- files -->/r "<(printf '```\n%s\n```\n' "$packed") docs/release-notes.md
fi
listed=$(sed -n '/^<!-- files -->/,/^<!-- end -->/{/^\//p}' docs/release-notes.md)
if [ "$listed" = "$packed" ]; then
    echo "ok, $(wc -l <<<"$packed")"
else
    diff <(echo "$listed") <(echo "$packed") || true
    no
fi

step "the installed size that they tell"
told=$(sed -n 's/.*installed size is \([0-9.]*\) MiB.*/\1/p' docs/release-notes.md)
size=$(dpkg-deb -f "$deb" Installed-Size)
case $size in
# A package of a plain `cargo build` is several times as big.
2????) echo "$size KiB, not compared: no release build" ;;
*)
    awk -v told="$told" -v size="$size" 'BEGIN {
        printf "%.1f MiB, told %s\n", size / 1024, told
        exit told < size / 1024 * 0.9 || told > size / 1024 * 1.1
    }' || no
    ;;
esac
exit $bad
