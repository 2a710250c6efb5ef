//! Layers of files under a root; all faults at once, each with its file and line.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::Config;

/// Where configuration is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// Main files, weakest first.
    pub files: Vec<PathBuf>,
    /// Directories of drop-ins, weakest first.
    pub dropins: Vec<PathBuf>,
}

impl Paths {
    /// Of the system instance: `/usr/lib/musterd/musterd.toml`, `/etc/musterd/musterd.toml`, then
    /// `musterd.toml.d/*.toml` of `/usr/lib`, `/run` and `/etc`, all under `root`.
    pub fn system(root: &Path) -> Self {
        let dir = |top: &str| root.join(top).join("musterd");
        Self {
            files: ["usr/lib", "etc"]
                .map(|top| dir(top).join("musterd.toml"))
                .to_vec(),
            dropins: ["usr/lib", "run", "etc"]
                .map(|top| dir(top).join("musterd.toml.d"))
                .to_vec(),
        }
    }

    /// Of a user's instance: `musterd.toml` and `musterd.toml.d/*.toml` in `config_home/musterd`
    /// (`$XDG_CONFIG_HOME` or `~/.config`).
    pub fn user(config_home: &Path) -> Self {
        let dir = config_home.join("musterd");
        Self {
            files: vec![dir.join("musterd.toml")],
            dropins: vec![dir.join("musterd.toml.d")],
        }
    }
}

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1; 0 where there is none.
    pub line: usize,
    /// What is wrong, and what is right.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file.display(), self.what),
            line => write!(f, "{}:{line}: {}", self.file.display(), self.what),
        }
    }
}

/// Everything that is wrong, in the order of the layers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Fault>);

impl std::error::Error for ConfigErrors {}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.0.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

/// Reads layer after layer into one configuration.
#[derive(Default)]
struct Loader {
    config: Config,
    read: Vec<PathBuf>,
    faults: Vec<Fault>,
    /// Where each key was last set, for faults that two keys make together.
    origins: BTreeMap<(&'static str, &'static str), (PathBuf, usize)>,
}

impl Config {
    /// Reads every layer that is there. Answers the configuration and the files read, weakest
    /// first, or all faults.
    pub fn load(paths: &Paths) -> Result<(Config, Vec<PathBuf>), ConfigErrors> {
        let mut loader = Loader::default();
        for file in &paths.files {
            loader.file(file);
        }
        for file in loader.dropins(&paths.dropins) {
            loader.file(&file);
        }
        loader.together();
        if loader.faults.is_empty() {
            Ok((loader.config, loader.read))
        } else {
            Err(ConfigErrors(loader.faults))
        }
    }

    /// The configuration as a file: every key, its value and its line of why.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for section in Self::SECTIONS {
            out.push_str(&format!("\n#{}\n[{section}]\n", Self::about(section)));
            for key in Self::keys(section).unwrap_or_default() {
                let value = self.show(section, key.name).unwrap_or_default();
                out.push_str(&format!("#{}\n{} = {value}\n", key.why, key.name));
            }
        }
        out
    }
}

impl Loader {
    fn fault(&mut self, file: &Path, line: usize, what: impl Into<String>) {
        self.faults.push(Fault {
            file: file.to_owned(),
            line,
            what: what.into(),
        });
    }

    /// The drop-ins that count, sorted by name: of two with one name the stronger directory's,
    /// and none if that is empty or a link to `/dev/null`.
    fn dropins(&mut self, dirs: &[PathBuf]) -> Vec<PathBuf> {
        let mut by_name = BTreeMap::new();
        for dir in dirs {
            let entries = match std::fs::read_dir(dir).and_then(Iterator::collect) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    self.fault(dir, 0, format!("cannot be listed: {error}"));
                    continue;
                }
            };
            let entries: Vec<std::fs::DirEntry> = entries;
            for entry in entries {
                let path = entry.path();
                let hidden = entry.file_name().as_bytes().starts_with(b".");
                if !hidden && path.extension().is_some_and(|e| e == "toml") {
                    by_name.insert(entry.file_name(), path);
                }
            }
        }
        by_name.into_values().collect()
    }

    fn file(&mut self, path: &Path) {
        let text = match std::fs::read(path).map(String::from_utf8) {
            Ok(Ok(text)) => text,
            Ok(Err(error)) => {
                let at = error.utf8_error().valid_up_to();
                let before = &error.as_bytes()[..at];
                let line = before.iter().filter(|b| **b == b'\n').count() + 1;
                return self.fault(path, line, "is not UTF-8 text");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.fault(path, 0, format!("cannot be read: {error}")),
        };
        self.read.push(path.to_owned());
        let earlier = self.faults.len();
        self.check(path, &text);
        // The parser's tables are sorted by key; people read from top to bottom.
        self.faults[earlier..].sort_by_key(|fault| fault.line);
    }

    fn check(&mut self, path: &Path, text: &str) {
        let (table, errors) = DeTable::parse_recoverable(text);
        let line_at = |at: usize| {
            text.as_bytes()[..at.min(text.len())]
                .iter()
                .filter(|b| **b == b'\n')
                .count()
                + 1
        };
        let broken: Vec<usize> = errors
            .iter()
            .map(|error| {
                let line = line_at(error.span().map_or(text.len(), |s| s.start));
                self.fault(path, line, error.message().replace('\n', ", "));
                line
            })
            .collect();
        for (name, value) in table.get_ref() {
            let line = line_at(name.span().start);
            match value.get_ref() {
                DeValue::Table(keys) => {
                    let keys: Vec<_> = keys
                        .iter()
                        .map(|(k, v)| (k.get_ref().as_ref(), line_at(k.span().start), v.get_ref()))
                        // What a broken line left behind is no second fault.
                        .filter(|(_, line, _)| !broken.contains(line))
                        .collect();
                    self.section(path, line, name.get_ref(), &keys);
                }
                _ if broken.contains(&line) => {}
                _ => self.stray_key(path, line, name.get_ref()),
            }
        }
    }

    fn stray_key(&mut self, path: &Path, line: usize, key: &str) {
        let home = Config::SECTIONS.iter().find(|section| {
            Config::keys(section)
                .unwrap_or_default()
                .iter()
                .any(|k| k.name == key)
        });
        let what = match home {
            Some(section) => format!("the key {key:?} belongs below [{section}]"),
            None if Config::SECTIONS.contains(&key) => {
                format!("{key:?} is a section: write [{key}]")
            }
            None => unknown("section", key, Config::SECTIONS.iter().copied()),
        };
        self.fault(path, line, what);
    }

    fn section(&mut self, path: &Path, line: usize, name: &str, keys: &[(&str, usize, &DeValue)]) {
        let section = Config::SECTIONS.iter().find(|s| **s == name);
        let Some((section, known)) = section.and_then(|s| Some((s, Config::keys(s)?))) else {
            let what = unknown("section", name, Config::SECTIONS.iter().copied());
            return self.fault(path, line, what);
        };
        for (key, line, value) in keys {
            let line = *line;
            let set = self.config.section(name).and_then(|s| s.put(key, value));
            match set {
                Some(Ok(())) => {
                    if let Some(key) = known.iter().find(|k| k.name == *key) {
                        let origin = (path.to_owned(), line);
                        self.origins.insert((section, key.name), origin);
                    }
                }
                Some(Err(why)) => self.fault(path, line, format!("{name}.{key} {why}")),
                None => {
                    let what = unknown("key", key, known.iter().map(|k| k.name));
                    self.fault(path, line, format!("[{name}] {what}"));
                }
            }
        }
    }

    /// What single keys cannot tell.
    fn together(&mut self) {
        let restart = &self.config.restart;
        if restart.backoff_min <= restart.backoff_max {
            return;
        }
        let (file, line) = ["backoff_min", "backoff_max"]
            .iter()
            .find_map(|key| self.origins.get(&("restart", *key)).cloned())
            .unwrap_or_default();
        let what = "restart.backoff_min is more than restart.backoff_max";
        self.fault(&file, line, what);
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let nearest = known
        .map(|k| (distance(name, k), k))
        .min()
        .filter(|(d, k)| *d <= 2.max(k.len() / 3));
    match nearest {
        Some((_, nearest)) => format!("unknown {what} {name:?}; did you mean {nearest:?}?"),
        None => format!("unknown {what} {name:?}"),
    }
}

/// Single-character edits from one text to the other (Levenshtein), `-` and `_` being equal.
fn distance(a: &str, b: &str) -> usize {
    let plain = |t: &str| {
        t.to_lowercase()
            .replace('-', "_")
            .chars()
            .collect::<Vec<_>>()
    };
    let (a, b) = (plain(a), plain(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replace = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
