//! A row's file, to be looked at and spoiled by hand.

use std::fs;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

pub struct RowFile {
    path: PathBuf,
    pub table: Table,
}

impl RowFile {
    pub fn read(path: &Path) -> RowFile {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        RowFile {
            path: path.to_owned(),
            table: text.parse().unwrap(),
        }
    }

    pub fn write(&self) {
        fs::write(&self.path, self.table.to_string()).unwrap();
    }

    /// Replaces a value that is there; `process.pid` is the key `pid` of the table `process`.
    #[track_caller]
    pub fn set(&mut self, key: &str, value: Value) {
        let mut words: Vec<&str> = key.split('.').collect();
        let last = words.pop().unwrap();
        let mut table = &mut self.table;
        for word in words {
            table = table[word].as_table_mut().unwrap();
        }
        assert!(table.contains_key(last), "no {key} in {table}");
        table.insert(last.to_owned(), value);
    }
}
