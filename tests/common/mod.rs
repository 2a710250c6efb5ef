//! What every test of the programs needs: where they are.

use std::path::{Path, PathBuf};

/// One of the built programs. The variable names a directory with copies of them, for a user
/// who cannot look into the checkout.
pub fn program(name: &str) -> PathBuf {
    if let Some(dir) = std::env::var_os("MUSTERD_TEST_PROGRAMS") {
        return Path::new(&dir).join(name);
    }
    let musterctl = Path::new(env!("CARGO_BIN_EXE_musterctl"));
    match name {
        "forktree" => musterctl.with_file_name("examples").join(name),
        _ => musterctl.with_file_name(name),
    }
}
