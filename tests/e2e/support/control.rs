//! Workers that speak the control channel.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use super::{World, hear, means};

fn below(dir: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir).join(name);
    path.to_str().unwrap().to_owned()
}

/// A shipped example.
pub fn example(name: &str) -> String {
    below("examples", name)
}

/// A fixture of these tests.
pub fn fixture(name: &str) -> String {
    below("tests/e2e/fixtures", name)
}

/// Python, or said aloud that there is none.
pub fn python(test: &str) -> bool {
    let there = means::has_program("python3");
    if !there {
        means::not_run(test, "there is no python3");
    }
    there
}

/// Python itself: what is called so in PATH may be a shell script that looks for it each time.
pub fn interpreter() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let mut ask = Command::new("python3");
        ask.args(["-c", "import sys; print(sys.executable)"]);
        hear(ask).ok().stdout.trim().to_owned()
    })
}

/// Starts a worker that does on its channel what `script` says, in Python.
#[track_caller]
pub fn speak(world: &World, options: &[&str], script: &str) -> String {
    let mut all = vec!["--control", "frames"];
    all.extend(options);
    world.run(&all, &[interpreter(), "-S", &fixture("speak.py"), script])
}
