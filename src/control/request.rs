//! What a worker may ask for by `request`: the arguments, as JSON, to what the supervisor takes.
//! They are Spawn's, Cancel's and Status's dictionaries; unknown keys are errors, as there.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::worker::{
    Control, Ending, Environment, Kind, KindError, KindType, LeftoversPolicy, Limits, Priority,
    RestartPolicy, Spec, Timeouts, WorktreeChoice,
};

/// A request that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// A sibling with the asking worker as its parent.
    Spawn(Box<Spec>),
    /// The end of a worker below the asking one.
    Cancel {
        /// Whom, as any WORKER.
        worker: String,
        /// Why; may be empty.
        reason: String,
        /// Straight to the kill rung.
        now: bool,
        /// Leave the workers it asked for alone.
        keep_descendants: bool,
    },
    /// What has become of the workers it asked for.
    Status {
        /// One of them; `None` for all.
        worker: Option<String>,
    },
}

/// `env`: pairs, or a table.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "env is neither a list of \"NAME=VALUE\" nor an object of texts"
)]
enum Env {
    Pairs(Vec<String>),
    Table(BTreeMap<String, String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
#[derive(Default)]
struct SpawnArgs {
    argv: Option<Vec<String>>,
    argv_bytes: Option<Vec<Vec<u8>>>,
    name: String,
    cwd: Option<String>,
    cwd_bytes: Option<Vec<u8>>,
    env: Option<Env>,
    env_bytes: Option<Vec<Vec<u8>>>,
    kind: Option<KindType>,
    kind_fields: Map<String, Value>,
    deadline_usec: u64,
    idle_timeout_usec: u64,
    progress_timeout_usec: u64,
    pong_timeout_usec: u64,
    control: Option<Control>,
    payload: Option<Box<RawValue>>,
    worktree: Option<String>,
    worktree_bytes: Option<Vec<u8>>,
    uid: Option<u32>,
    memory_max: u64,
    tasks_max: u64,
    cpu_weight: u64,
    cpu_max_percent: u32,
    nice: Option<i32>,
    tokens_max: u64,
    restart: Option<RestartPolicy>,
    restart_max: Option<u32>,
    leftovers: Option<LeftoversPolicy>,
    stop_signal: i32,
    grace_usec: u64,
    kill_grace_usec: u64,
    stop_hook: Vec<String>,
    priority: Option<Priority>,
    trace_id: String,
    private_tmp: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CancelArgs {
    worker: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    now: bool,
    #[serde(default)]
    keep_descendants: bool,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StatusArgs {
    worker: Option<String>,
}

impl Request {
    /// Reads one. `cwd` is that of the asking worker, for one that names none.
    ///
    /// # Errors
    /// In words: which name or key, and what is right.
    pub fn read(
        name: &str,
        args: Option<&RawValue>,
        cwd: &std::path::Path,
    ) -> Result<Self, String> {
        let text = args.map_or("{}", RawValue::get);
        if !text.trim_start().starts_with('{') {
            return Err("args is no object".to_owned());
        }
        match name {
            "spawn" => {
                let args: SpawnArgs = named(name, text)?;
                spec(args, cwd).map(|spec| Request::Spawn(Box::new(spec)))
            }
            "cancel" => {
                let args: CancelArgs = named(name, text)?;
                Ok(Request::Cancel {
                    worker: args.worker,
                    reason: args.reason,
                    now: args.now,
                    keep_descendants: args.keep_descendants,
                })
            }
            "status" => {
                let args: StatusArgs = named(name, text)?;
                Ok(Request::Status {
                    worker: args.worker,
                })
            }
            other => {
                let other: String = other.chars().take(64).collect();
                Err(format!(
                    "there is no request {other:?}; there are spawn, cancel and status"
                ))
            }
        }
    }
}

fn spec(args: SpawnArgs, cwd: &std::path::Path) -> Result<Spec, String> {
    let usual = Spec::default();
    let usec = |n: u64| (n > 0).then(|| Duration::from_micros(n));
    let some = |n: u64| (n > 0).then_some(n);
    let cwd = text("cwd", args.cwd, args.cwd_bytes)?.map_or(cwd.to_owned(), PathBuf::from);
    let worktree = match text("worktree", args.worktree, args.worktree_bytes)? {
        None => WorktreeChoice::Auto,
        Some(text) if text == "auto" || text.is_empty() => WorktreeChoice::Auto,
        Some(text) if text == "none" => WorktreeChoice::None,
        Some(path) => WorktreeChoice::Path(path.into()),
    };
    if let Some(Env::Table(table)) = &args.env
        && let Some(name) = table.keys().find(|name| name.contains('='))
    {
        return Err(format!("env: the name {name:?} holds an equals sign"));
    }
    let env = args.env.map(|env| match env {
        Env::Pairs(pairs) => pairs,
        Env::Table(table) => table.into_iter().map(|(k, v)| format!("{k}={v}")).collect(),
    });
    Ok(Spec {
        argv: texts("argv", args.argv, args.argv_bytes)?,
        name: args.name,
        cwd,
        env: Environment(texts("env", env, args.env_bytes)?),
        kind: kind(args.kind.unwrap_or(KindType::Command), args.kind_fields)?,
        timeouts: Timeouts {
            deadline: usec(args.deadline_usec),
            idle: usec(args.idle_timeout_usec),
            progress: usec(args.progress_timeout_usec),
            pong: usec(args.pong_timeout_usec),
        },
        control: args.control.unwrap_or(usual.control),
        payload: args.payload.map(|raw| raw.get().to_owned()),
        worktree,
        uid: args.uid,
        limits: Limits {
            memory_max: some(args.memory_max),
            tasks_max: some(args.tasks_max),
            cpu_weight: some(args.cpu_weight),
            cpu_max_percent: Some(args.cpu_max_percent).filter(|n| *n > 0),
            nice: args.nice,
            tokens_max: some(args.tokens_max),
        },
        restart: args.restart.unwrap_or(usual.restart),
        restart_max: args.restart_max,
        leftovers: args.leftovers,
        ending: Ending {
            stop_signal: Some(args.stop_signal).filter(|n| *n != 0),
            grace: usec(args.grace_usec),
            kill_grace: usec(args.kill_grace_usec),
            stop_hook: args.stop_hook.into_iter().map(OsString::from).collect(),
        },
        priority: args.priority.unwrap_or(usual.priority),
        trace_id: args.trace_id,
        private_tmp: args.private_tmp,
        tty: false,
    })
}

fn both(key: &str) -> String {
    format!("spawn: {key} was given together with {key}-bytes; give one")
}

fn text(
    key: &str,
    plain: Option<String>,
    bytes: Option<Vec<u8>>,
) -> Result<Option<OsString>, String> {
    match (plain, bytes) {
        (Some(_), Some(_)) => Err(both(key)),
        (plain, bytes) => Ok(plain.map(OsString::from).or(bytes.map(OsString::from_vec))),
    }
}

fn texts(
    key: &str,
    plain: Option<Vec<String>>,
    bytes: Option<Vec<Vec<u8>>>,
) -> Result<Vec<OsString>, String> {
    match (plain, bytes) {
        (Some(_), Some(_)) => Err(both(key)),
        (Some(plain), None) => Ok(plain.into_iter().map(OsString::from).collect()),
        (None, bytes) => Ok(bytes
            .unwrap_or_default()
            .into_iter()
            .map(OsString::from_vec)
            .collect()),
    }
}

/// Reads the arguments; an error names the key that it is about.
fn named<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, String> {
    let error = match serde_json::from_str(text) {
        Ok(args) => return Ok(args),
        Err(error) => error,
    };
    let each: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap_or_default();
    for (key, value) in each {
        let alone: BTreeMap<&str, &RawValue> = [(key.as_str(), &*value)].into();
        let alone = serde_json::to_string(&alone).unwrap_or_default();
        // A key that is missing is none of this one's affair.
        if let Err(error) = serde_json::from_str::<T>(&alone)
            && !error.to_string().starts_with("missing field")
        {
            return Err(format!(
                "{name}: args: the key {key:?}: {}",
                without_place(&error)
            ));
        }
    }
    Err(format!("{name}: args: {}", without_place(&error)))
}

/// The place is one in a text that nobody sees.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(at) => text[..at].to_owned(),
        None => text,
    }
}

/// A kind and its fields; a field that it does not have is an error.
fn kind(kind: KindType, mut fields: Map<String, Value>) -> Result<Kind, String> {
    let known = kind.fields();
    let strange = fields.keys().find(|field| !known.contains(&field.as_str()));
    if let Some(field) = strange {
        let field = field.chars().take(64).collect();
        return Err(format!(
            "spawn: kind-fields: {}",
            KindError::Unknown { kind, field }
        ));
    }
    fields.insert("type".to_owned(), kind.as_str().into());
    serde_json::from_value(Value::Object(fields))
        .map_err(|e| format!("spawn: kind-fields: {}", without_place(&e)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::worker::ReplyTo;

    fn read(name: &str, args: &str) -> Result<Request, String> {
        let raw = RawValue::from_string(args.to_owned()).unwrap();
        Request::read(name, Some(&raw), Path::new("/here"))
    }

    fn spawned(args: &str) -> Spec {
        match read("spawn", args) {
            Ok(Request::Spawn(spec)) => *spec,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_plain_program_is_asked_for_in_few_words() {
        let spec = spawned(r#"{"argv": ["make", "-k"]}"#);
        assert_eq!(spec.argv, ["make", "-k"]);
        assert_eq!(spec.cwd, Path::new("/here"));
        assert_eq!(spec.kind, Kind::Command);
        assert_eq!(spec.env, Environment::default());
        assert_eq!(
            spec,
            Spec {
                argv: spec.argv.clone(),
                cwd: "/here".into(),
                ..Spec::default()
            }
        );
    }

    #[test]
    fn every_key_of_spawn_is_taken() {
        let spec = spawned(
            r#"{"argv-bytes": [[255, 120]], "name": "n", "cwd": "/w", "env": {"A": "1"},
                "kind": "think", "kind-fields": {"purpose": "p", "reply_to": {"node": 3, "request": 4},
                "reservation": 9}, "deadline-usec": 5, "idle-timeout-usec": 6,
                "progress-timeout-usec": 7, "pong-timeout-usec": 8, "control": "frames",
                "payload": {"a": [1]}, "worktree": "none", "uid": 7, "memory-max": 1,
                "tasks-max": 2, "cpu-weight": 3, "cpu-max-percent": 4, "nice": 5, "tokens-max": 6,
                "restart": "always", "restart-max": 2, "leftovers": "wait", "stop-signal": 2,
                "grace-usec": 1, "kill-grace-usec": 2, "stop-hook": ["true"], "priority": "low",
                "trace-id": "t", "private-tmp": true}"#,
        );
        assert_eq!(spec.argv, [OsString::from_vec(vec![255, b'x'])]);
        assert_eq!(spec.env.0, ["A=1"]);
        assert_eq!(spec.payload.as_deref(), Some(r#"{"a": [1]}"#));
        assert_eq!(spec.worktree, WorktreeChoice::None);
        let Kind::Think {
            reply_to,
            reservation,
            ..
        } = spec.kind
        else {
            panic!("{:?}", spec.kind)
        };
        assert_eq!(
            (reply_to, reservation),
            (
                Some(ReplyTo {
                    node: 3,
                    request: 4
                }),
                Some(9)
            )
        );
        assert_eq!(spec.ending.stop_signal, Some(2));
        assert_eq!(spec.limits.tokens_max, Some(6));
        assert!(spec.private_tmp);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, args, word) in [
            ("spawn", r#"{"argw": []}"#, "argw"),
            ("spawn", r#"{"stdin": 0}"#, "stdin"),
            (
                "spawn",
                r#"{"argv": ["x"], "argv-bytes": [[1]]}"#,
                "argv-bytes",
            ),
            ("spawn", r#"{"kind": "subagent"}"#, "handle"),
            ("spawn", r#"{"kind": "later"}"#, "later"),
            (
                "spawn",
                r#"{"kind": "subagent", "kind-fields": {"handle": "h", "x": 1}}"#,
                "\"x\"",
            ),
            (
                "spawn",
                r#"{"argv": ["x"], "kind": 1.5}"#,
                "the key \"kind\"",
            ),
            (
                "spawn",
                r#"{"argv": ["x"], "name": 1.5}"#,
                "the key \"name\"",
            ),
            ("spawn", r#"{"argv": ["x"], "env": 5}"#, "the key \"env\""),
            (
                "spawn",
                r#"{"argv": ["x"], "env": {"A=B": "c"}}"#,
                "equals sign",
            ),
            ("cancel", r#"{"worker": "x", "now": 1}"#, "the key \"now\""),
            ("spawn", "[]", "object"),
            ("cancel", "{}", "worker"),
            ("status", r#"{"all": true}"#, "all"),
            ("reap", "{}", "spawn, cancel and status"),
        ] {
            let error = read(name, args).expect_err(args);
            assert!(error.contains(word), "{error}");
        }
    }
}
