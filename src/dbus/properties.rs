//! Properties, each set made from one view, and how changes of them are told.

use std::hash::{DefaultHasher, Hash, Hasher};

use zbus::Variant;

use super::contract::{Emits, Interface, MANAGER_INTERFACE, Property, WORKER_INTERFACE};
use super::convert::pid;
use super::errors::{Code, Failure};
use super::kind::kind_to_dict;
use super::{MANAGER, WORKER};
use crate::supervisor::handle::{ServiceView, WorkerView};
use crate::worker::{Exit, Timestamp};

/// What systemd's accounting properties hold when there is no figure.
const NO_FIGURE: u64 = u64::MAX;

/// Where the values come from.
#[derive(Debug)]
pub enum Source {
    /// The service.
    Service(Box<ServiceView>),
    /// A worker.
    Worker(Box<WorkerView>),
}

impl Source {
    /// The interface that has the properties.
    pub fn interface(&self) -> &'static Interface {
        match self {
            Source::Service(_) => &MANAGER_INTERFACE,
            Source::Worker(_) => &WORKER_INTERFACE,
        }
    }

    /// One value; `None` if there is no such property.
    pub fn get(&self, name: &str) -> Option<Variant<'static>> {
        match self {
            Source::Service(view) => service_value(view, name),
            Source::Worker(view) => worker_value(view, name),
        }
    }

    /// One value.
    pub fn property(&self, interface: &str, name: &str) -> Result<Variant<'static>, Failure> {
        self.check(interface)?;
        self.get(name).ok_or_else(|| {
            Failure::new(
                Code::UnknownProperty,
                format!("{} has no property {name:?}", self.interface().name),
            )
        })
    }

    /// Every value.
    pub fn all(&self, interface: &str) -> Result<Vec<(&'static str, Variant<'static>)>, Failure> {
        self.check(interface)?;
        let properties = self.interface().properties;
        Ok(properties
            .iter()
            .filter_map(|p| Some((p.name, self.get(p.name)?)))
            .collect())
    }

    /// An empty interface name means any.
    fn check(&self, interface: &str) -> Result<(), Failure> {
        if interface.is_empty() || interface == self.interface().name {
            return Ok(());
        }
        Err(Failure::new(
            Code::UnknownInterface,
            format!("no properties of an interface {interface:?} here"),
        ))
    }
}

/// No property can be written; the error says whether there is one at all.
pub fn refuse_set(interface: &str, name: &str) -> Failure {
    let table: &[Property] = match interface {
        MANAGER => MANAGER_INTERFACE.properties,
        WORKER => WORKER_INTERFACE.properties,
        _ => &[],
    };
    if table.iter().any(|p| p.name == name) {
        Failure::new(
            Code::PropertyReadOnly,
            format!("{interface}.{name} cannot be written"),
        )
    } else {
        Failure::new(
            Code::UnknownProperty,
            format!("no property {name:?} of {interface:?}"),
        )
    }
}

/// What was told last of each property, as hashes: a few bytes a property, so that 10,000 live
/// workers cost a few MB and not a copy of every view.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told(Vec<u32>);

/// What is to be told.
#[derive(Debug, Default)]
pub struct News {
    /// With their values.
    pub changed: Vec<(&'static str, Variant<'static>)>,
    /// Without.
    pub invalidated: Vec<&'static str>,
}

impl News {
    /// Nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.invalidated.is_empty()
    }
}

impl Told {
    /// What differs from what was told last; remembers it. The first time everything does.
    pub fn news(&mut self, source: &Source) -> News {
        let properties = source.interface().properties;
        let first = self.0.len() != properties.len();
        if first {
            self.0 = vec![0; properties.len()];
        }
        let mut news = News::default();
        for (property, told) in properties.iter().zip(&mut self.0) {
            if matches!(property.emits, Emits::Const | Emits::False) {
                continue;
            }
            let Some(value) = source.get(property.name) else {
                continue;
            };
            let now = hash(&value);
            if !first && *told == now {
                continue;
            }
            *told = now;
            match property.emits {
                Emits::Invalidates => news.invalidated.push(property.name),
                _ => news.changed.push((property.name, value)),
            }
        }
        news
    }
}

fn hash(value: &Variant<'_>) -> u32 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    // Half of a 64-bit hash is enough: a clash hides one change of one property once.
    (hasher.finish() >> 32) as u32
}

fn micros(time: Option<Timestamp>) -> Variant<'static> {
    time.map_or(0, Timestamp::micros).into()
}

fn service_value(view: &ServiceView, name: &str) -> Option<Variant<'static>> {
    Some(match name {
        "Version" => view.version.clone().into(),
        "Generation" => view.generation.into(),
        "State" => view.state.clone().into(),
        "Containment" => view.containment.clone().into(),
        "Degraded" => view.degraded.clone().into(),
        "NWorkers" => view.n_workers.into(),
        "NRows" => view.n_rows.into(),
        "NQuarantined" => view.n_quarantined.into(),
        "GraceUSec" => view.grace_usec.into(),
        "StartTimestamp" => view.started.micros().into(),
        "LastReapTimestamp" => micros(view.last_reap),
        _ => return None,
    })
}

fn worker_value(view: &WorkerView, name: &str) -> Option<Variant<'static>> {
    let text = |text: Option<&str>| Variant::from(text.unwrap_or("").to_owned());
    let exit = |code: bool| match (view.exit, code) {
        (Some(Exit::Code(n)), true) | (Some(Exit::Signal(n)), false) => n,
        _ => 0,
    };
    let cancelled = view.cancelled.as_ref();
    Some(match name {
        "Id" => view.id.to_string().into(),
        "Name" => view.name.clone().into(),
        "Kind" => view.kind.clone().into(),
        "KindType" => text(Some(view.kind_fields.kind_type().as_str())),
        "KindFields" => kind_to_dict(&view.kind_fields).into(),
        "Node" => view.node.map_or(0, |node| node.0).into(),
        "Status" => text(Some(view.status.as_str())),
        "Health" => text(view.health.map(|h| h.as_str())),
        "StatusText" => view.status_text.clone().into(),
        "Owner" => view.owner.uid.into(),
        "PID" => pid(view).into(),
        "Parent" => view.parent.map_or(String::new(), |p| p.to_string()).into(),
        "Depth" => view.depth.into(),
        "TraceId" => view.trace_id.clone().into(),
        "CommandLine" => view.argv.clone().into(),
        "WorkingDirectory" => view.cwd.clone().into(),
        "Worktree" => text(view.worktree.as_deref()),
        "ControlGroup" => match &view.control_group {
            Some(path) => path.to_string_lossy().into_owned().into(),
            None => text(None),
        },
        "CreatedTimestamp" => view.created.micros().into(),
        "StartedTimestamp" => micros(view.started),
        "ExitedTimestamp" => micros(view.exited),
        "DeadlineTimestamp" => micros(view.deadline),
        "Outcome" => text(view.outcome.map(|o| o.as_str())),
        "HowKnown" => text(view.how_known.map(|h| h.as_str())),
        "ExitCode" => exit(true).into(),
        "ExitSignal" => exit(false).into(),
        "Rung" => text(view.rung.map(|r| r.as_str())),
        "NextRungTimestamp" => micros(view.next_rung),
        "Unkillable" => view.unkillable.into(),
        "OOMKilled" => view.oom_killed.into(),
        "Cancelled" => cancelled.is_some().into(),
        "CancelReason" => text(cancelled.map(|c| c.reason.as_str())),
        "CancelledBy" => cancelled.map_or(0, |c| c.by).into(),
        "Settled" => view.settled.into(),
        "Held" => view.held.into(),
        "Attended" => view.attended.into(),
        "InputTokens" => view.tokens.input.into(),
        "OutputTokens" => view.tokens.output.into(),
        "Restarts" => view.restarts.into(),
        "Reservation" => view.reservation.unwrap_or(0).into(),
        "Leftovers" => view.leftovers.names.clone().into(),
        "Unenforced" => view.unenforced.clone().into(),
        "OutputDropped" => view.output_dropped.into(),
        "CPUUsageNSec" => view
            .usage
            .and_then(|u| u.cpu_nsec)
            .unwrap_or(NO_FIGURE)
            .into(),
        "MemoryCurrent" => view
            .usage
            .and_then(|u| u.memory_current)
            .unwrap_or(NO_FIGURE)
            .into(),
        "MemoryPeak" => view
            .usage
            .and_then(|u| u.memory_peak)
            .unwrap_or(NO_FIGURE)
            .into(),
        "TasksCurrent" => {
            let tasks = view
                .usage
                .and_then(|u| u.tasks)
                .and_then(|n| u32::try_from(n).ok());
            tasks.unwrap_or(u32::MAX).into()
        }
        _ => return None,
    })
}
