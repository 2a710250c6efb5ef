//! What every test needs: waiting with a bound, running programs with a bound, reading rows.

pub mod control;
pub mod git;
pub mod means;
pub mod proc;
pub mod rowfile;
mod world;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

pub use world::{Containment, World};

/// Every wait ends here.
pub const BOUND: Duration = Duration::from_secs(30);

/// Waits until `look` answers.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(BOUND, what, look)
}

pub fn wait_within<T>(bound: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(begun.elapsed() < bound, "not within {bound:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    wait_for(what, || look().then_some(()));
}

/// What a command said.
#[derive(Debug, Clone)]
pub struct Said {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    #[track_caller]
    pub fn ok(self) -> Said {
        assert_eq!(self.code, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Runs a command to its end, in bounded time. Its output goes to files: a daemon that it
/// started could hold a pipe open for ever.
pub fn hear(mut command: Command) -> Said {
    let dir = TempDir::new().unwrap();
    let (out, err) = (dir.path().join("out"), dir.path().join("err"));
    command
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(&err).unwrap());
    let shown = format!("{command:?}");
    let mut child = Reaped(command.spawn().unwrap_or_else(|e| panic!("{shown}: {e}")));
    let status = wait_within(2 * BOUND, &shown, || child.0.try_wait().unwrap());
    use std::os::unix::process::ExitStatusExt;
    let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Said {
        code: status
            .code()
            .unwrap_or_else(|| 1000 + status.signal().unwrap_or(0)),
        stdout: read(&out),
        stderr: read(&err),
    }
}

/// A child of the test that does not outlive it.
pub struct Reaped(pub Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A JSON string, empty for null.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The exit code of a row.
pub fn code(row: &Value) -> Option<i64> {
    row["exit"]["code"].as_i64()
}

/// The signal that ended a row's leader.
pub fn signal(row: &Value) -> Option<i64> {
    row["exit"]["signal"].as_i64()
}
