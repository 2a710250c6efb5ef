//! `check-config`: all faults of the configuration files at once. Needs no daemon.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::report::count;
use crate::client::args::{CheckConfigArgs, Global};
use crate::client::exit::{Code, Failure};
use crate::client::output::Output;
use crate::client::output::text::escape;
use crate::config::{Config, Paths};
use crate::places::{Real, config_home, config_root};

/// Runs the verb. `--system` and `--user` choose one set of files; without them both are checked.
pub fn run(global: &Global, args: &CheckConfigArgs, out: &mut Output) -> Result<Code, Failure> {
    let root = args.config_root.clone().or_else(|| config_root(&Real));
    check(&sets(global, root.as_deref()), out)
}

fn sets(global: &Global, root: Option<&Path>) -> Vec<Paths> {
    let mut sets = Vec::new();
    if !global.user {
        sets.push(Paths::system(root.unwrap_or(Path::new("/"))));
    }
    let user = match root {
        Some(root) => Some(root.to_owned()),
        None => config_home(&Real),
    };
    if let Some(home) = user.filter(|_| !global.system) {
        sets.push(Paths::user(&home));
    }
    sets
}

fn check(sets: &[Paths], out: &mut Output) -> Result<Code, Failure> {
    let mut read: BTreeSet<PathBuf> = BTreeSet::new();
    let mut faults = Vec::new();
    for paths in sets {
        match Config::load(paths) {
            Ok((_, files)) => read.extend(files),
            Err(errors) => faults.extend(errors.0),
        }
    }
    if out.json.is_some() {
        let rows: Vec<_> = faults
            .iter()
            .map(|fault| {
                json!({
                    "file": fault.file.to_string_lossy(),
                    "line": (fault.line > 0).then_some(fault.line),
                    "what": fault.what,
                })
            })
            .collect();
        let files: Vec<_> = read.iter().map(|file| file.to_string_lossy()).collect();
        out.json(&json!({"faults": rows, "files": files}));
    } else {
        for fault in &faults {
            // A fault may quote the line it found, and a line may span several.
            for line in fault.to_string().lines() {
                say!("{}", escape(line));
            }
        }
        if !out.quiet && faults.is_empty() {
            for file in &read {
                out.line(escape(&file.to_string_lossy()));
            }
            let files = count(read.len() as u64, "file", "files");
            out.line(format!("{files} read, no faults."));
        }
    }
    if faults.is_empty() {
        Ok(Code::DONE)
    } else {
        let faults = count(faults.len() as u64, "fault", "faults");
        Err(Failure::new(
            Code::BAD_CONFIG,
            format!("{faults} in the configuration"),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str) -> Result<Code, Failure> {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("etc/musterd");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("musterd.toml"), text).unwrap();
        let mut out = Output::new(&Global::default());
        check(&sets(&Global::default(), Some(root.path())), &mut out)
    }

    #[test]
    fn every_fault_is_counted_and_ends_in_code_six() {
        assert_eq!(checked("[gc]\ngrace = \"1h\"\n"), Ok(Code::DONE));
        let failure = checked("[gc]\ngrcae = \"1h\"\n[ladder]\ngrace = 7\n").unwrap_err();
        assert_eq!(failure.code, Code::BAD_CONFIG);
        assert_eq!(failure.message, "2 faults in the configuration");
    }

    #[test]
    fn flags_choose_the_set_of_files() {
        let with = |system, user| Global {
            system,
            user,
            ..Global::default()
        };
        let root = Some(Path::new("/r"));
        assert_eq!(sets(&with(false, false), root).len(), 2);
        assert_eq!(
            sets(&with(true, false), root),
            [Paths::system(Path::new("/r"))]
        );
        assert_eq!(
            sets(&with(false, true), root),
            [Paths::user(Path::new("/r"))]
        );
    }
}
