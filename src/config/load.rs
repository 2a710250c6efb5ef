//! Layers of files under a root; all faults at once, each with its file and line.

use std::fmt;
use std::path::{Path, PathBuf};

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

impl Config {
    /// Reads every layer that is there. Answers the configuration and the files read, weakest
    /// first, or all faults.
    pub fn load(paths: &Paths) -> Result<(Config, Vec<PathBuf>), ConfigErrors> {
        let _ = paths;
        todo!()
    }

    /// The configuration as a file: every key, its value and its line of why.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        for section in Self::SECTIONS {
            out.push_str(&format!("\n[{section}]\n"));
            for key in Self::keys(section).unwrap_or_default() {
                let value = self.show(section, key.name).unwrap_or_default();
                out.push_str(&format!("#{}\n{} = {value}\n", key.why, key.name));
            }
        }
        out
    }
}
