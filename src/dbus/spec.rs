//! Spawn's dictionary and the [`Spec`], both ways.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use zbus::{Fd, Variant};

use super::dict::{Dict, Keys, Received};
use super::errors::Failure;
use super::kind::{kind_from_dict, kind_to_dict};
use crate::supervisor::handle::Stdio;
use crate::worker::{Environment, Spec, WorktreeChoice};

/// Spawn's dictionary.
pub const SPAWN_KEYS: Keys = &[
    ("argv", "as"),
    ("argv-bytes", "aay"),
    ("name", "s"),
    ("cwd", "s"),
    ("cwd-bytes", "ay"),
    ("env", "as"),
    ("env-bytes", "aay"),
    ("kind", "s"),
    ("kind-fields", "a{sv}"),
    ("deadline-usec", "t"),
    ("idle-timeout-usec", "t"),
    ("progress-timeout-usec", "t"),
    ("pong-timeout-usec", "t"),
    ("control", "s"),
    ("payload", "s"),
    ("worktree", "s"),
    ("worktree-bytes", "ay"),
    ("uid", "u"),
    ("memory-max", "t"),
    ("tasks-max", "t"),
    ("cpu-weight", "t"),
    ("cpu-max-percent", "u"),
    ("nice", "i"),
    ("tokens-max", "t"),
    ("restart", "s"),
    ("restart-max", "u"),
    ("leftovers", "s"),
    ("stop-signal", "i"),
    ("grace-usec", "t"),
    ("kill-grace-usec", "t"),
    ("stop-hook", "as"),
    ("priority", "s"),
    ("trace-id", "s"),
    ("private-tmp", "b"),
    ("stdin", "h"),
    ("stdout", "h"),
    ("stderr", "h"),
    ("tty", "b"),
];
/// Spawn's dictionary to what the supervisor takes.
pub fn spec_from_dict(dict: Received) -> Result<(Spec, Stdio), Failure> {
    let mut d = Dict::checked("Spawn", dict, SPAWN_KEYS)?;
    let usual = Spec::default();
    let mut spec = Spec {
        argv: d.texts("argv")?.unwrap_or_default(),
        name: d.take("name")?.unwrap_or_default(),
        cwd: d.text("cwd")?.map_or(usual.cwd, PathBuf::from),
        env: Environment(d.texts("env")?.unwrap_or_default()),
        kind: kind_from_dict(d.word("kind")?, d.take("kind-fields")?)?,
        control: d.word("control")?.unwrap_or(usual.control),
        payload: d.take("payload")?,
        worktree: worktree(d.text("worktree")?),
        uid: d.take("uid")?,
        restart: d.word("restart")?.unwrap_or(usual.restart),
        restart_max: d.take("restart-max")?,
        leftovers: d.word("leftovers")?,
        priority: d.word("priority")?.unwrap_or(usual.priority),
        trace_id: d.take("trace-id")?.unwrap_or_default(),
        private_tmp: d.take("private-tmp")?.unwrap_or_default(),
        tty: d.take("tty")?.unwrap_or_default(),
        ..Spec::default()
    };
    limits_from_dict(&mut d, &mut spec)?;
    let stdio = Stdio {
        stdin: d.fd("stdin")?,
        stdout: d.fd("stdout")?,
        stderr: d.fd("stderr")?,
    };
    Ok((spec, stdio))
}

fn limits_from_dict(d: &mut Dict, spec: &mut Spec) -> Result<(), Failure> {
    spec.timeouts.deadline = d.usec("deadline-usec")?;
    spec.timeouts.idle = d.usec("idle-timeout-usec")?;
    spec.timeouts.progress = d.usec("progress-timeout-usec")?;
    spec.timeouts.pong = d.usec("pong-timeout-usec")?;
    spec.limits.memory_max = d.number("memory-max")?;
    spec.limits.tasks_max = d.number("tasks-max")?;
    spec.limits.cpu_weight = d.number("cpu-weight")?;
    spec.limits.cpu_max_percent = d.take("cpu-max-percent")?.filter(|n: &u32| *n != 0);
    spec.limits.nice = d.take("nice")?;
    spec.limits.tokens_max = d.number("tokens-max")?;
    spec.ending.stop_signal = d.take("stop-signal")?.filter(|n: &i32| *n != 0);
    spec.ending.grace = d.usec("grace-usec")?;
    spec.ending.kill_grace = d.usec("kill-grace-usec")?;
    let hook = d.take::<Vec<String>>("stop-hook")?.unwrap_or_default();
    spec.ending.stop_hook = hook.into_iter().map(OsString::from).collect();
    Ok(())
}

pub(super) fn worktree(text: Option<OsString>) -> WorktreeChoice {
    match text {
        None => WorktreeChoice::Auto,
        Some(text) if text == "auto" || text.is_empty() => WorktreeChoice::Auto,
        Some(text) if text == "none" => WorktreeChoice::None,
        Some(path) => WorktreeChoice::Path(PathBuf::from(path)),
    }
}

/// The inverse of [`spec_from_dict`]: only what differs from the default is there.
pub fn spec_to_dict(spec: &Spec, stdio: Stdio) -> HashMap<String, Variant<'static>> {
    let mut dict = HashMap::new();
    let usual = Spec::default();
    put_texts(&mut dict, "argv", &spec.argv);
    put_text(&mut dict, "cwd", spec.cwd.as_os_str());
    put_texts(&mut dict, "env", &spec.env.0);
    match &spec.worktree {
        WorktreeChoice::Auto => {}
        WorktreeChoice::None => put_text(&mut dict, "worktree", "none".as_ref()),
        WorktreeChoice::Path(path) => put_text(&mut dict, "worktree", path.as_os_str()),
    }
    let mut put = |key: &str, value: Option<Variant<'static>>| {
        if let Some(value) = value {
            dict.insert(key.to_owned(), value);
        }
    };
    let text = |value: &String| (!value.is_empty()).then(|| value.clone().into());
    put("name", text(&spec.name));
    put("kind", Some(spec.kind.kind_type().as_str().into()));
    let fields = kind_to_dict(&spec.kind);
    put("kind-fields", (!fields.is_empty()).then(|| fields.into()));
    put(
        "control",
        (spec.control != usual.control).then(|| spec.control.as_str().into()),
    );
    put("payload", spec.payload.clone().map(Variant::from));
    put("uid", spec.uid.map(Variant::from));
    put(
        "restart",
        (spec.restart != usual.restart).then(|| spec.restart.as_str().into()),
    );
    put("restart-max", spec.restart_max.map(Variant::from));
    put("leftovers", spec.leftovers.map(|l| l.as_str().into()));
    put(
        "priority",
        (spec.priority != usual.priority).then(|| spec.priority.as_str().into()),
    );
    put("trace-id", text(&spec.trace_id));
    put("private-tmp", spec.private_tmp.then(|| true.into()));
    put("tty", spec.tty.then(|| true.into()));
    put("deadline-usec", spec.timeouts.deadline.map(usec));
    put("idle-timeout-usec", spec.timeouts.idle.map(usec));
    put("progress-timeout-usec", spec.timeouts.progress.map(usec));
    put("pong-timeout-usec", spec.timeouts.pong.map(usec));
    put("memory-max", spec.limits.memory_max.map(Variant::from));
    put("tasks-max", spec.limits.tasks_max.map(Variant::from));
    put("cpu-weight", spec.limits.cpu_weight.map(Variant::from));
    put(
        "cpu-max-percent",
        spec.limits.cpu_max_percent.map(Variant::from),
    );
    put("nice", spec.limits.nice.map(Variant::from));
    put("tokens-max", spec.limits.tokens_max.map(Variant::from));
    put("stop-signal", spec.ending.stop_signal.map(Variant::from));
    put("grace-usec", spec.ending.grace.map(usec));
    put("kill-grace-usec", spec.ending.kill_grace.map(usec));
    let hook: Vec<String> = spec.ending.stop_hook.iter().map(lossy).collect();
    put("stop-hook", (!hook.is_empty()).then(|| hook.into()));
    let fd = |fd: std::os::fd::OwnedFd| Variant::from(Fd::from(fd));
    put("stdin", stdio.stdin.map(fd));
    put("stdout", stdio.stdout.map(fd));
    put("stderr", stdio.stderr.map(fd));
    dict
}

fn lossy(text: &OsString) -> String {
    text.to_string_lossy().into_owned()
}

fn usec(length: Duration) -> Variant<'static> {
    // 0 means none on the bus, so the shortest length asked for is 1.
    u64::try_from(length.as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
        .into()
}

/// May it travel as a D-Bus string: UTF-8 without NUL.
fn as_string(text: &OsStr) -> Option<String> {
    text.to_str()
        .filter(|t| !t.contains('\0'))
        .map(str::to_owned)
}

pub(super) fn put_text(dict: &mut HashMap<String, Variant<'static>>, key: &str, text: &OsStr) {
    match as_string(text) {
        Some(plain) => dict.insert(key.to_owned(), plain.into()),
        None => dict.insert(format!("{key}-bytes"), text.as_bytes().to_vec().into()),
    };
}

fn put_texts(dict: &mut HashMap<String, Variant<'static>>, key: &str, texts: &[OsString]) {
    let plain: Option<Vec<String>> = texts.iter().map(|t| as_string(t)).collect();
    match plain {
        Some(plain) => dict.insert(key.to_owned(), plain.into()),
        None => {
            let bytes: Vec<Vec<u8>> = texts.iter().map(|t| t.as_bytes().to_vec()).collect();
            dict.insert(format!("{key}-bytes"), bytes.into())
        }
    };
}
