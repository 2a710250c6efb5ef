//! The walls between the modules, as `docs/architecture.md` draws them: calls go down only.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test's name is its documentation, and a panic its verdict"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Who may not use whom; `a::b` is one file of a module.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "worker",
        &[
            "registry",
            "supervisor",
            "gc",
            "dbus",
            "sys",
            "client",
            "daemon",
            "config",
        ],
    ),
    (
        "control",
        &[
            "registry",
            "supervisor",
            "gc",
            "dbus",
            "sys",
            "client",
            "daemon",
            "config",
        ],
    ),
    (
        "sys",
        &[
            "control",
            "registry",
            "supervisor",
            "gc",
            "dbus",
            "client",
            "daemon",
            "config",
        ],
    ),
    (
        "gc",
        &["supervisor", "dbus", "client", "daemon", "registry"],
    ),
    (
        "registry",
        &["supervisor", "dbus", "client", "daemon", "gc", "sys"],
    ),
    ("supervisor", &["dbus", "client", "daemon"]),
    ("dbus", &["registry", "client", "daemon"]),
    ("client", &["registry", "daemon"]),
    (
        "config",
        &["registry", "supervisor", "gc", "dbus", "client", "daemon"],
    ),
];

/// A door through the wall: one question to the kernel for which no safe library has the call.
const DOORS: &[(&str, &str)] = &[("registry", "crate::sys::lease")];

/// Files that read no clock, no file and log nothing.
const PURE: &[&str] = &[
    "worker",
    "control",
    "gc/facts.rs",
    "gc/decide.rs",
    "supervisor/pure",
];

const IMPURE: &[&str] = &[
    "async fn",
    "tracing::",
    "std::fs",
    "tokio::",
    "SystemTime",
    "Instant::now",
    "nix::",
    "rustix::",
    "libc::",
    "zbus::",
    "std::env",
];

fn source() -> Option<PathBuf> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    // As another user, where the checkout is nobody else's business. The owner's run has seen it.
    let found = fs::read_dir(&src).ok().map(|_| src);
    if found.is_none() {
        // Past the harness's capture, so that the run counts it.
        let _ = writeln!(
            std::io::stderr(),
            "layers: not run, because the sources cannot be read by this user"
        );
    }
    found
}

fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_file() {
        return vec![path.to_owned()];
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path).into_iter().flatten() {
        all.extend(files(&entry.unwrap().path()));
    }
    all.retain(|p| p.extension().is_some_and(|e| e == "rs"));
    all
}

/// The code of a file: no comments, and nothing from its unit tests on.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    text.lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
        .filter(|line| !line.trim_start().starts_with("//"))
        .map(|line| format!("{line}\n"))
        .collect()
}

fn is_unit_test(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "tests.rs")
        || path.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn calls_go_down_only() {
    let Some(src) = source() else { return };
    let mut broken = Vec::new();
    for (module, lower) in FORBIDDEN {
        let own = [src.join(module), src.join(format!("{module}.rs"))];
        for path in own
            .iter()
            .flat_map(|path| files(path))
            .filter(|p| !is_unit_test(p))
        {
            let mut code = code(&path);
            for (_, door) in DOORS.iter().filter(|(from, _)| from == module) {
                code = code.replace(door, "");
            }
            for other in *lower {
                if code.contains(&format!("crate::{other}")) {
                    broken.push(format!("{} uses {other}", path.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn pure_files_touch_nothing_outside() {
    let Some(src) = source() else { return };
    let mut broken = Vec::new();
    for path in PURE.iter().flat_map(|name| files(&src.join(name))) {
        let code = code(&path);
        for word in IMPURE {
            // `nix::` is not in `unix::`.
            let begins =
                |at: usize| !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
            if code.match_indices(word).any(|(at, _)| begins(at)) {
                broken.push(format!("{}: {word}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn unsafe_code_is_behind_one_door() {
    let Some(src) = source() else { return };
    let door = src.join("sys");
    let elsewhere: Vec<_> = files(&src)
        .into_iter()
        .filter(|path| !path.starts_with(&door))
        .filter(|path| {
            code(path)
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .any(|word| word == "unsafe")
        })
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:#?}");
}
