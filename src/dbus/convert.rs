//! Between the dictionaries of the contract and the vocabulary, both ways. An unknown key and a
//! value of another type are errors that name the key and what is right.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use zbus::{Fd, ObjectPath, OwnedObjectPath, OwnedVariant, Variant};

use super::errors::Failure;
use super::kind::{kind_from_dict, kind_to_dict};
use super::object_path;
use crate::gc::report::Report;
use crate::supervisor::handle::{
    CancelOptions, CancelReply, Ended, ListFilter, ReapOptions, Spawned, Stdio, Whom, WorkerView,
};
use crate::worker::{Exit, Spec, WorkerId, WorktreeChoice};

/// Bytes of a command line in a list.
const ARGV_IN_LIST: usize = 2048;

/// A dictionary to be sent.
pub type Details = BTreeMap<&'static str, Variant<'static>>;
/// A dictionary that came in.
pub type Received = BTreeMap<String, OwnedVariant>;
/// The keys of a dictionary with the signature of each.
pub type Keys = &'static [(&'static str, &'static str)];

/// A row of ListWorkers, as sent.
pub type ListRow = (
    String,
    String,
    String,
    &'static str,
    &'static str,
    u32,
    u32,
    u64,
    u64,
    ObjectPath<'static>,
    Details,
);
/// A row of ListWorkers, as received.
pub type OwnedListRow = (
    String,
    String,
    String,
    String,
    String,
    u32,
    u32,
    u64,
    u64,
    OwnedObjectPath,
    HashMap<String, OwnedVariant>,
);
/// A row of Reap's report, as sent.
pub type ReportRow = (String, &'static str, String, Details);
/// A row of Reap's report, as received.
pub type OwnedReportRow = (String, String, String, HashMap<String, OwnedVariant>);

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
/// ListWorkers' dictionary.
pub const FILTER_KEYS: Keys = &[
    ("all", "b"),
    ("owner", "u"),
    ("status", "as"),
    ("kind", "s"),
    ("after", "s"),
    ("limit", "u"),
];
/// Cancel's dictionary.
pub const CANCEL_KEYS: Keys = &[("now", "b"), ("keep-descendants", "b")];
/// Reap's dictionary.
pub const REAP_KEYS: Keys = &[
    ("dry-run", "b"),
    ("grace-usec", "t"),
    ("workers", "as"),
    ("limit", "u"),
    ("after", "s"),
];
/// Forget's dictionary.
pub const FORGET_KEYS: Keys = &[("force", "b")];
/// A dictionary without keys of its own yet.
pub const NO_KEYS: Keys = &[];

/// A dictionary whose keys and types have been checked; values are taken out one by one.
#[derive(Debug)]
pub struct Dict {
    what: &'static str,
    left: Received,
}

impl Dict {
    /// Checks every key and type. `what` is the method, for the error.
    pub fn checked(what: &'static str, dict: Received, keys: Keys) -> Result<Self, Failure> {
        for (key, value) in &dict {
            let Some((_, signature)) = keys.iter().find(|(known, _)| known == key) else {
                return Err(unknown_key(what, key, keys));
            };
            let found = value.value_signature().to_string();
            if found != *signature {
                return Err(Failure::invalid(format!(
                    "{what}: the key {key:?} is of type {signature:?}, not {found:?}"
                )));
            }
        }
        Ok(Self { what, left: dict })
    }

    /// The value of `key`, if it was given.
    pub fn take<T: TryFrom<OwnedVariant>>(&mut self, key: &str) -> Result<Option<T>, Failure> {
        let Some(value) = self.left.remove(key) else {
            return Ok(None);
        };
        T::try_from(value)
            .map(Some)
            .map_err(|_| self.bad(key, "cannot be read"))
    }

    /// A word of a fixed set.
    pub fn word<T: std::str::FromStr<Err = String>>(
        &mut self,
        key: &str,
    ) -> Result<Option<T>, Failure> {
        self.take::<String>(key)?
            .map(|word| word.parse().map_err(|why: String| self.bad(key, &why)))
            .transpose()
    }

    /// A length of time; 0 is none.
    fn usec(&mut self, key: &str) -> Result<Option<Duration>, Failure> {
        Ok(self.number(key)?.map(Duration::from_micros))
    }

    /// A number; 0 is none.
    fn number(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        Ok(self.take::<u64>(key)?.filter(|n| *n != 0))
    }

    /// Text, or its `-bytes` twin.
    fn text(&mut self, key: &str) -> Result<Option<OsString>, Failure> {
        let twin = format!("{key}-bytes");
        self.not_both(key, &twin)?;
        if let Some(bytes) = self.take::<Vec<u8>>(&twin)? {
            return Ok(Some(OsString::from_vec(bytes)));
        }
        Ok(self.take::<String>(key)?.map(OsString::from))
    }

    /// A list of texts, or its `-bytes` twin.
    fn texts(&mut self, key: &str) -> Result<Option<Vec<OsString>>, Failure> {
        let twin = format!("{key}-bytes");
        self.not_both(key, &twin)?;
        if let Some(list) = self.take::<Vec<Vec<u8>>>(&twin)? {
            return Ok(Some(list.into_iter().map(OsString::from_vec).collect()));
        }
        let list = self.take::<Vec<String>>(key)?;
        Ok(list.map(|list| list.into_iter().map(OsString::from).collect()))
    }

    fn not_both(&self, key: &str, twin: &str) -> Result<(), Failure> {
        if self.left.contains_key(key) && self.left.contains_key(twin) {
            return Err(self.bad(key, &format!("was given together with {twin:?}; give one")));
        }
        Ok(())
    }

    fn id(&mut self, key: &str) -> Result<Option<WorkerId>, Failure> {
        let text = self.take::<String>(key)?.filter(|t| !t.is_empty());
        text.map(|t| t.parse().map_err(|e| self.bad(key, &format!("{e}"))))
            .transpose()
    }

    fn fd(&mut self, key: &str) -> Result<Option<std::os::fd::OwnedFd>, Failure> {
        let Some(value) = self.left.remove(key) else {
            return Ok(None);
        };
        Fd::try_from(value)
            .and_then(std::os::fd::OwnedFd::try_from)
            .map(Some)
            .map_err(|e| self.bad(key, &format!("the descriptor cannot be taken: {e}")))
    }

    /// An unusable value of `key`.
    pub fn bad(&self, key: &str, why: &str) -> Failure {
        Failure::invalid(format!("{}: {key}: {why}", self.what))
    }
}

fn unknown_key(what: &str, key: &str, keys: Keys) -> Failure {
    let known: Vec<&str> = keys.iter().map(|(known, _)| *known).collect();
    let right = if known.is_empty() {
        "it takes none yet".to_owned()
    } else {
        format!("the keys are {}", known.join(", "))
    };
    let key: String = key.chars().take(64).collect();
    Failure::invalid(format!("{what}: unknown key {key:?}; {right}"))
}

/// Spawn's dictionary to what the supervisor takes.
pub fn spec_from_dict(dict: Received) -> Result<(Spec, Stdio), Failure> {
    let mut d = Dict::checked("Spawn", dict, SPAWN_KEYS)?;
    let mut spec = Spec::default();
    spec.argv = d.texts("argv")?.unwrap_or_default();
    spec.name = d.take("name")?.unwrap_or_default();
    if let Some(cwd) = d.text("cwd")? {
        spec.cwd = PathBuf::from(cwd);
    }
    spec.env.0 = d.texts("env")?.unwrap_or_default();
    spec.kind = kind_from_dict(d.word("kind")?, d.take("kind-fields")?)?;
    spec.control = d.word("control")?.unwrap_or(spec.control);
    spec.payload = d.take("payload")?;
    spec.worktree = worktree(d.text("worktree")?);
    spec.uid = d.take("uid")?;
    spec.restart = d.word("restart")?.unwrap_or(spec.restart);
    spec.restart_max = d.take("restart-max")?;
    spec.leftovers = d.word("leftovers")?;
    spec.priority = d.word("priority")?.unwrap_or(spec.priority);
    spec.trace_id = d.take("trace-id")?.unwrap_or_default();
    spec.private_tmp = d.take("private-tmp")?.unwrap_or_default();
    spec.tty = d.take("tty")?.unwrap_or_default();
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

fn worktree(text: Option<OsString>) -> WorktreeChoice {
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
fn as_string(text: &std::ffi::OsStr) -> Option<String> {
    text.to_str()
        .filter(|t| !t.contains('\0'))
        .map(str::to_owned)
}

fn put_text(dict: &mut HashMap<String, Variant<'static>>, key: &str, text: &std::ffi::OsStr) {
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

/// ListWorkers' dictionary.
pub fn filter_from_dict(dict: Received) -> Result<ListFilter, Failure> {
    let mut d = Dict::checked("ListWorkers", dict, FILTER_KEYS)?;
    let words = d.take::<Vec<String>>("status")?.unwrap_or_default();
    let status: Result<Vec<_>, String> = words.iter().map(|word| word.parse()).collect();
    Ok(ListFilter {
        all: d.take("all")?.unwrap_or_default(),
        owner: d.take("owner")?,
        status: status.map_err(|why| d.bad("status", &why))?,
        kind: d.take("kind")?,
        after: d.id("after")?,
        limit: d.take("limit")?.unwrap_or_default(),
    })
}

/// The inverse of [`filter_from_dict`].
pub fn filter_to_dict(filter: &ListFilter) -> Details {
    let mut dict = Details::new();
    let words: Vec<&str> = filter.status.iter().map(|s| s.as_str()).collect();
    put(&mut dict, "all", filter.all.then_some(true));
    put(&mut dict, "owner", filter.owner);
    put(&mut dict, "status", (!words.is_empty()).then_some(words));
    put(&mut dict, "kind", filter.kind.clone());
    put(&mut dict, "after", filter.after.map(|id| id.to_string()));
    put(
        &mut dict,
        "limit",
        (filter.limit > 0).then_some(filter.limit),
    );
    dict
}

/// Cancel's dictionary.
pub fn cancel_from_dict(dict: Received) -> Result<CancelOptions, Failure> {
    let mut d = Dict::checked("Cancel", dict, CANCEL_KEYS)?;
    Ok(CancelOptions {
        now: d.take("now")?.unwrap_or_default(),
        keep_descendants: d.take("keep-descendants")?.unwrap_or_default(),
    })
}

/// The inverse of [`cancel_from_dict`].
pub fn cancel_to_dict(options: CancelOptions) -> Details {
    let mut dict = Details::new();
    put(&mut dict, "now", options.now.then_some(true));
    let keep = options.keep_descendants.then_some(true);
    put(&mut dict, "keep-descendants", keep);
    dict
}

/// Reap's dictionary. Here a grace of 0 is a grace: everything dead is past it at once.
pub fn reap_from_dict(dict: Received) -> Result<ReapOptions, Failure> {
    let mut d = Dict::checked("Reap", dict, REAP_KEYS)?;
    Ok(ReapOptions {
        dry_run: d.take("dry-run")?.unwrap_or_default(),
        grace: d.take("grace-usec")?.map(Duration::from_micros),
        workers: d.take("workers")?.unwrap_or_default(),
        limit: d.take("limit")?.unwrap_or_default(),
        after: d.id("after")?,
    })
}

/// The inverse of [`reap_from_dict`].
pub fn reap_to_dict(options: &ReapOptions) -> Details {
    let mut dict = Details::new();
    let workers = (!options.workers.is_empty()).then(|| options.workers.clone());
    let micros = |g: Duration| u64::try_from(g.as_micros()).unwrap_or(u64::MAX);
    put(&mut dict, "dry-run", options.dry_run.then_some(true));
    put(&mut dict, "grace-usec", options.grace.map(micros));
    put(&mut dict, "workers", workers);
    put(
        &mut dict,
        "limit",
        (options.limit > 0).then_some(options.limit),
    );
    put(&mut dict, "after", options.after.map(|id| id.to_string()));
    dict
}

/// `leader`, `group` or `all`.
pub fn whom_word(whom: Whom) -> &'static str {
    match whom {
        Whom::Leader => "leader",
        Whom::Group => "group",
        Whom::All => "all",
    }
}

/// The inverse of [`whom_word`].
pub fn whom_from_word(word: &str) -> Result<Whom, Failure> {
    match word {
        "leader" => Ok(Whom::Leader),
        "group" => Ok(Whom::Group),
        "all" => Ok(Whom::All),
        _ => Err(Failure::invalid(format!(
            "Kill: whom is {word:?}, which is none of leader, group, all"
        ))),
    }
}

/// Adds a key where there is a value.
pub fn put<T: Into<Variant<'static>>>(dict: &mut Details, key: &'static str, value: Option<T>) {
    if let Some(value) = value {
        dict.insert(key, value.into());
    }
}

fn filled(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn list_of(ids: &[WorkerId]) -> Vec<String> {
    ids.iter().map(WorkerId::to_string).collect()
}

/// Adds the exit as `exit-code` or `exit-signal`.
pub fn put_exit(dict: &mut Details, exit: Option<Exit>) {
    match exit {
        Some(Exit::Code(code)) => put(dict, "exit-code", Some(code)),
        Some(Exit::Signal(signal)) => put(dict, "exit-signal", Some(signal)),
        None => {}
    }
}

/// Answer of Spawn.
pub fn spawned(answer: &Spawned) -> (String, ObjectPath<'static>, Details) {
    let mut more = Details::new();
    put(&mut more, "unenforced", Some(answer.unenforced.clone()));
    put(&mut more, "durable", Some(answer.durable));
    (answer.id.to_string(), object_path(answer.id), more)
}

/// A row of ListWorkers.
pub fn list_row(view: &WorkerView) -> ListRow {
    let mut more = Details::new();
    let micros = |t: crate::worker::Timestamp| t.micros();
    put(
        &mut more,
        "argv",
        (!view.argv.is_empty()).then(|| view.argv.clone()),
    );
    put(&mut more, "cwd", filled(&view.cwd));
    put(&mut more, "worktree", view.worktree.clone());
    put(&mut more, "started", view.started.map(micros));
    put(&mut more, "exited", view.exited.map(micros));
    put(&mut more, "outcome", view.outcome.map(|o| o.as_str()));
    put_exit(&mut more, view.exit);
    put(&mut more, "rung", view.rung.map(|r| r.as_str()));
    put(&mut more, "held", view.held.then_some(true));
    put(&mut more, "parent", view.parent.map(|p| p.to_string()));
    put(&mut more, "read-only", view.read_only.clone());
    put(&mut more, "note", view.note.clone());
    let names = &view.leftovers.names;
    put(
        &mut more,
        "leftovers",
        (!names.is_empty()).then(|| names.clone()),
    );
    (
        view.id.to_string(),
        view.name.clone(),
        view.kind.clone(),
        view.status.as_str(),
        view.health.map_or("", |h| h.as_str()),
        view.owner.uid,
        pid(view),
        view.created.micros(),
        view.tokens.input.saturating_add(view.tokens.output),
        object_path(view.id),
        more,
    )
}

/// Command line in a list: 1,000 rows of 1 MiB would be more than a bus carries. The whole one
/// is in `Status` of that worker and in its CommandLine.
pub fn short(argv: &[String]) -> Vec<String> {
    let mut left = ARGV_IN_LIST;
    let mut out = Vec::new();
    for argument in argv {
        if argument.len() >= left {
            let cut = argument.floor_char_boundary(left);
            out.push(format!("{}\u{2026}", &argument[..cut]));
            break;
        }
        left -= argument.len() + 1;
        out.push(argument.clone());
    }
    out
}

/// The leader's pid, 0 for none.
pub fn pid(view: &WorkerView) -> u32 {
    view.pid.and_then(|p| u32::try_from(p).ok()).unwrap_or(0)
}

/// Answer of Cancel.
pub fn cancelled(answer: &CancelReply) -> (&'static str, Details) {
    let mut more = Details::new();
    put(&mut more, "durable", Some(answer.durable));
    put(&mut more, "descendants", Some(list_of(&answer.descendants)));
    put(&mut more, "outcome", answer.outcome.map(|o| o.as_str()));
    (answer.state.as_str(), more)
}

/// Answer of Wait.
pub fn ended(answer: &Ended) -> (&'static str, Details) {
    let view = &answer.view;
    let mut details = Details::new();
    put_exit(&mut details, view.exit);
    put(&mut details, "rung", view.rung.map(|r| r.as_str()));
    put(&mut details, "took-usec", view.took_usec);
    put(&mut details, "processes", Some(view.processes));
    put(
        &mut details,
        "leftovers",
        Some(view.leftovers.names.clone()),
    );
    if let Some(cancelled) = &view.cancelled {
        put(&mut details, "reason", Some(cancelled.reason.clone()));
        put(&mut details, "by", Some(cancelled.by));
    }
    put(&mut details, "oom-killed", Some(view.oom_killed));
    put(&mut details, "settled", Some(view.settled));
    put(
        &mut details,
        "how-known",
        view.how_known.map(|h| h.as_str()),
    );
    (answer.outcome.as_str(), details)
}

/// Answer of Reap.
pub fn report(answer: Report) -> (BTreeMap<String, u64>, Vec<ReportRow>) {
    let rows = answer.rows.into_iter().map(|row| {
        let mut more = Details::new();
        put(&mut more, "name", filled(&row.name));
        put(&mut more, "seconds-left", row.seconds_left);
        put(&mut more, "detail", filled(&row.detail));
        put(&mut more, "since", row.since.map(|t| t.micros()));
        (row.id.to_string(), row.action.as_str(), row.reason, more)
    });
    (answer.counts, rows.collect())
}
