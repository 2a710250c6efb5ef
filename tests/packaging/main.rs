//! What is shipped beside the programs agrees with them.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's name is its documentation, and a panic its verdict"
)]

mod pages;

use std::path::Path;

use musterd::log::id;

/// `None` where the checkout is nobody else's business; the owner's run has seen it.
fn shipped(path: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => None,
        text => Some(text.unwrap_or_else(|e| panic!("{}: {e}", path.display()))),
    }
}

#[test]
fn the_catalog_has_one_entry_for_every_message_id() {
    let Some(catalog) = shipped("packaging/systemd/musterd.catalog") else {
        return;
    };
    let mut entries: Vec<&str> = catalog
        .lines()
        .filter_map(|line| line.strip_prefix("-- "))
        .collect();
    let mut ids: Vec<&str> = id::ALL.iter().map(|(_, id)| *id).collect();
    entries.sort_unstable();
    ids.sort_unstable();
    assert_eq!(entries, ids);
    for entry in catalog.split("\n-- ").skip(1) {
        for header in [
            "Subject: ",
            "Defined-By: musterd",
            "Support: ",
            "Documentation: ",
        ] {
            assert!(entry.contains(&format!("\n{header}")), "{header} {entry}");
        }
        let text = entry.split_once("\n\n").map_or("", |(_, text)| text);
        assert!(text.trim().len() > 40, "no explanation: {entry}");
    }
    let long: Vec<&str> = catalog
        .lines()
        .filter(|line| line.chars().count() > 76)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn the_bus_policy_lets_everybody_call_every_interface_that_is_served() {
    let Some(policy) = shipped("packaging/dbus/org.muster1.conf") else {
        return;
    };
    for interface in [
        musterd::dbus::MANAGER,
        musterd::dbus::WORKER,
        "org.freedesktop.DBus.Properties",
        "org.freedesktop.DBus.Introspectable",
        "org.freedesktop.DBus.Peer",
        "org.freedesktop.LogControl1",
    ] {
        assert!(policy.contains(&format!("send_interface=\"{interface}\"")));
    }
    assert!(policy.contains("<allow own=\"org.muster1\"/>"));
}

#[test]
fn every_polkit_action_may_be_asked_about_by_the_services_own_user() {
    let Some(policy) = shipped("packaging/dbus/org.muster1.policy") else {
        return;
    };
    let actions: Vec<&str> = policy.split("<action id=\"").skip(1).collect();
    assert_eq!(actions.len(), 4);
    for action in actions {
        assert!(
            action.contains("policykit.owner\">unix-user:musterd<"),
            "{action}"
        );
    }
}

#[test]
fn every_package_has_the_version_of_the_programs() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        ("packaging/deb/changelog", format!("musterd ({version}) ")),
        (
            "packaging/rpm/musterd.spec",
            format!("\nVersion:        {version}\n"),
        ),
        ("packaging/arch/PKGBUILD", format!("\npkgver={version}\n")),
        (
            "packaging/org.muster1.musterd.metainfo.xml",
            format!("<release version=\"{version}\""),
        ),
        ("docs/release-notes.md", format!("\n## {version}")),
    ] {
        let Some(text) = shipped(file) else { return };
        assert!(text.contains(&line), "{file} has no {line:?}");
    }
}
