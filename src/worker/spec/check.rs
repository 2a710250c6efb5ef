//! What can be checked of a spec without looking at the system. PURE.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Control, RestartPolicy, Spec, SpecError, WorktreeChoice};

/// One of them: `MAX_ARG_STRLEN` of the smallest pages (execve(2)).
const MAX_ARG_STRLEN: usize = 128 * 1024;

/// argv and environment together; the kernel's own limit is higher (execve(2)).
const ARGS_MAX: usize = 1024 * 1024;

impl Spec {
    /// Checks everything that can be checked without looking at the system.
    pub fn check(&self) -> Result<(), SpecError> {
        check_program(self)?;
        check_name(&self.name)?;
        self.kind.check()?;
        check_numbers(self)?;
        check_times(self)?;
        check_payload(self)
    }
}

fn bad(key: &'static str, why: impl Into<String>) -> SpecError {
    SpecError::Bad {
        key,
        why: why.into(),
    }
}

fn check_program(spec: &Spec) -> Result<(), SpecError> {
    let Some(program) = spec.argv.first() else {
        return Err(bad("argv", "is empty; give the program and its arguments"));
    };
    if program.is_empty() {
        return Err(bad("argv", "the program's name is empty"));
    }
    if spec.argv.iter().any(|a| a.as_bytes().contains(&0)) {
        return Err(bad("argv", "holds a NUL byte"));
    }
    for pair in &spec.env.0 {
        match pair.as_bytes().iter().position(|b| *b == b'=') {
            None | Some(0) => return Err(bad("env", "an entry is not NAME=VALUE")),
            Some(_) if pair.as_bytes().contains(&0) => {
                return Err(bad("env", "an entry holds a NUL byte"));
            }
            Some(_) => {}
        }
    }
    for (key, texts) in [("argv", &spec.argv), ("env", &spec.env.0)] {
        if let Some(at) = texts.iter().position(|text| text.len() >= MAX_ARG_STRLEN) {
            let why =
                format!("entry {at} has {MAX_ARG_STRLEN} bytes or more, which execve(2) refuses");
            return Err(bad(key, why));
        }
    }
    let size: usize = spec
        .argv
        .iter()
        .chain(&spec.env.0)
        .map(|s| s.len() + 9)
        .sum();
    if size > ARGS_MAX {
        return Err(bad(
            "argv",
            format!("argv and env take {size} bytes, more than {ARGS_MAX}"),
        ));
    }
    for (key, path) in [("cwd", Some(&spec.cwd)), ("worktree", worktree_path(spec))] {
        let Some(path) = path else { continue };
        if !path.is_absolute() {
            return Err(bad(key, "is not an absolute path"));
        }
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(bad(key, "holds a NUL byte"));
        }
        if path.as_os_str().len() >= 4096 {
            return Err(bad(key, "is longer than 4095 bytes"));
        }
    }
    Ok(())
}

fn worktree_path(spec: &Spec) -> Option<&PathBuf> {
    match &spec.worktree {
        WorktreeChoice::Path(path) => Some(path),
        WorktreeChoice::Auto | WorktreeChoice::None => None,
    }
}

/// Names are free text up to 128 bytes, without control characters and `/` (section 2).
fn check_name(name: &str) -> Result<(), SpecError> {
    if name.len() > 128 {
        Err(bad("name", "is longer than 128 bytes"))
    } else if name.contains('/') {
        Err(bad("name", "holds a slash"))
    } else if name.chars().any(char::is_control) {
        Err(bad("name", "holds control characters"))
    } else {
        Ok(())
    }
}

fn check_numbers(spec: &Spec) -> Result<(), SpecError> {
    let limits = &spec.limits;
    if limits
        .cpu_weight
        .is_some_and(|w| !(1..=10_000).contains(&w))
    {
        return Err(bad("cpu-weight", "is not between 1 and 10000"));
    }
    if spec.uid == Some(u32::MAX) {
        return Err(bad("uid", "is no user: to the kernel it means none"));
    }
    if limits.nice.is_some_and(|n| !(-20..=19).contains(&n)) {
        return Err(bad("nice", "is not between -20 and 19"));
    }
    if limits.tasks_max == Some(0) || limits.memory_max == Some(0) {
        return Err(bad(
            "memory-max",
            "a limit of 0 would let nothing run; leave the key out",
        ));
    }
    if spec
        .ending
        .stop_signal
        .is_some_and(|s| !(1..=64).contains(&s))
    {
        return Err(bad(
            "stop-signal",
            "is not a signal number between 1 and 64",
        ));
    }
    if spec.trace_id.len() > 128 || spec.trace_id.chars().any(|c| !c.is_ascii_graphic()) {
        return Err(bad(
            "trace-id",
            "is not up to 128 printable ASCII characters",
        ));
    }
    Ok(())
}

/// What can be kept by nobody is not promised.
fn check_times(spec: &Spec) -> Result<(), SpecError> {
    let times = &spec.timeouts;
    for (key, time) in [
        ("deadline-usec", times.deadline),
        ("progress-timeout-usec", times.progress),
        ("pong-timeout-usec", times.pong),
    ] {
        if time.is_some_and(|time| time < Duration::from_millis(1)) {
            return Err(bad(key, "is shorter than 1 ms (1000)"));
        }
    }
    if times.pong.is_some() && spec.control == Control::None {
        let why = "needs control=frames or control=notify: nothing else gives signs of life";
        return Err(bad("pong-timeout-usec", why));
    }
    if spec.restart_max.is_some() && spec.restart == RestartPolicy::No {
        return Err(bad(
            "restart-max",
            "needs restart=on-failure or restart=always",
        ));
    }
    Ok(())
}

fn check_payload(spec: &Spec) -> Result<(), SpecError> {
    if spec.control != Control::Frames && spec.payload.is_some() {
        return Err(bad("payload", "needs control=frames"));
    }
    if let Some(payload) = &spec.payload {
        serde_json::from_str::<serde::de::IgnoredAny>(payload)
            .map_err(|e| bad("payload", format!("is not JSON: {e}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::Kind;

    fn spec() -> Spec {
        Spec {
            argv: vec!["true".into()],
            ..Spec::default()
        }
    }

    #[test]
    fn a_plain_program_is_accepted() {
        assert_eq!(spec().check(), Ok(()));
    }

    #[test]
    fn each_bad_key_is_named() {
        type Spoil = Box<dyn Fn(&mut Spec)>;
        let cases: Vec<(&str, Spoil)> = vec![
            ("argv", Box::new(|s| s.argv.clear())),
            ("argv", Box::new(|s| s.argv = vec!["".into()])),
            ("argv", Box::new(|s| s.argv.push("a\0b".into()))),
            (
                "argv",
                Box::new(|s| s.argv.push("x".repeat(MAX_ARG_STRLEN).into())),
            ),
            ("env", Box::new(|s| s.env.0.push("NOEQUALS".into()))),
            ("env", Box::new(|s| s.env.0.push("=x".into()))),
            ("cwd", Box::new(|s| s.cwd = "relative".into())),
            (
                "worktree",
                Box::new(|s| s.worktree = WorktreeChoice::Path("x".into())),
            ),
            ("name", Box::new(|s| s.name = "a/b".into())),
            ("name", Box::new(|s| s.name = "a\nb".into())),
            ("name", Box::new(|s| s.name = "x".repeat(129))),
            ("cpu-weight", Box::new(|s| s.limits.cpu_weight = Some(0))),
            ("nice", Box::new(|s| s.limits.nice = Some(20))),
            ("uid", Box::new(|s| s.uid = Some(u32::MAX))),
            ("memory-max", Box::new(|s| s.limits.memory_max = Some(0))),
            ("stop-signal", Box::new(|s| s.ending.stop_signal = Some(65))),
            ("trace-id", Box::new(|s| s.trace_id = "a b".into())),
            ("payload", Box::new(|s| s.payload = Some("{}".into()))),
            (
                "pong-timeout-usec",
                Box::new(|s| s.timeouts.pong = Some(Duration::from_secs(1))),
            ),
            (
                "deadline-usec",
                Box::new(|s| s.timeouts.deadline = Some(Duration::from_micros(1))),
            ),
            ("restart-max", Box::new(|s| s.restart_max = Some(3))),
            (
                "payload",
                Box::new(|s| {
                    s.control = Control::Frames;
                    s.payload = Some("{".into());
                }),
            ),
            (
                "kind-fields",
                Box::new(|s| {
                    s.kind = Kind::Subagent {
                        handle: String::new(),
                    }
                }),
            ),
        ];
        for (key, spoil) in cases {
            let mut bad = spec();
            spoil(&mut bad);
            let error = bad.check().expect_err(key).to_string();
            assert!(error.starts_with(key), "{key}: {error}");
        }
    }
}
