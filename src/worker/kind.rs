//! Why a worker exists: the five kinds with their fields and labels (section 5).

use serde::{Deserialize, Serialize};

use super::status::words;

words! {
    /// The kind without its fields.
    KindType {
        /// A turn started from outside.
        RootTurn = "root-turn",
        /// A step of a run.
        StepTurn = "step-turn",
        /// A thought for somebody.
        Think = "think",
        /// A helper with a handle.
        Subagent = "subagent",
        /// A plain program.
        Command = "command",
    }
}

impl KindType {
    /// The names of its fields.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            KindType::RootTurn => &["ctx", "event", "reservation", "msg_depth"],
            KindType::StepTurn => &["run", "step", "reservation"],
            KindType::Think => &["purpose", "ctx", "reply_to", "extra", "reservation"],
            KindType::Subagent => &["handle"],
            KindType::Command => &[],
        }
    }
}

/// Whom a think answers: the node and the number of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyTo {
    /// Node that asked.
    pub node: u64,
    /// Its request's number.
    pub request: u64,
}

/// Why a worker exists, with all that belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Kind {
    /// `turn:CTX`
    RootTurn {
        /// Context.
        ctx: String,
        /// Event that caused it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        event: Option<String>,
        /// Reservation to release at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<u64>,
        /// Message hops behind it.
        #[serde(default)]
        msg_depth: u32,
    },
    /// `step:RUN/STEP`
    StepTurn {
        /// Run.
        run: String,
        /// Step of the run.
        step: String,
        /// Reservation to release at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<u64>,
    },
    /// `think:PURPOSE`
    Think {
        /// What about.
        purpose: String,
        /// Context.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ctx: Option<String>,
        /// Whom the answer goes to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<ReplyTo>,
        /// JSON of the caller's own.
        #[serde(default)]
        extra: String,
        /// Reservation to release at its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reservation: Option<u64>,
    },
    /// `subagent:HANDLE`
    Subagent {
        /// The name it is addressed by.
        handle: String,
    },
    /// `command`, the default.
    #[default]
    Command,
}

/// Fields that do not make a kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// A field that must be there is not.
    #[error("kind {kind} needs the field {field:?}")]
    Missing {
        /// The kind.
        kind: KindType,
        /// The field.
        field: &'static str,
    },
    /// A field the kind does not have.
    #[error("kind {kind} has no field {field:?}")]
    Unknown {
        /// The kind.
        kind: KindType,
        /// The field.
        field: String,
    },
    /// A value that is empty, too long, holds control characters or is no valid JSON.
    #[error("field {field:?} of the kind: {why}")]
    Bad {
        /// The field.
        field: String,
        /// What is wrong.
        why: String,
    },
}

impl Kind {
    /// The kind without its fields.
    pub fn kind_type(&self) -> KindType {
        match self {
            Kind::RootTurn { .. } => KindType::RootTurn,
            Kind::StepTurn { .. } => KindType::StepTurn,
            Kind::Think { .. } => KindType::Think,
            Kind::Subagent { .. } => KindType::Subagent,
            Kind::Command => KindType::Command,
        }
    }

    /// The label shown to people.
    pub fn label(&self) -> String {
        match self {
            Kind::RootTurn { ctx, .. } => format!("turn:{ctx}"),
            Kind::StepTurn { run, step, .. } => format!("step:{run}/{step}"),
            Kind::Think { purpose, .. } => format!("think:{purpose}"),
            Kind::Subagent { handle } => format!("subagent:{handle}"),
            Kind::Command => "command".to_owned(),
        }
    }

    /// The reservation its end releases.
    pub fn reservation(&self) -> Option<u64> {
        match self {
            Kind::RootTurn { reservation, .. }
            | Kind::StepTurn { reservation, .. }
            | Kind::Think { reservation, .. } => *reservation,
            Kind::Subagent { .. } | Kind::Command => None,
        }
    }

    /// The handle of a subagent.
    pub fn handle(&self) -> Option<&str> {
        match self {
            Kind::Subagent { handle } => Some(handle),
            _ => None,
        }
    }

    /// Checks every text field: present where needed, at most 256 bytes (`extra`: 64 KiB), no
    /// control characters, `extra` valid JSON.
    pub fn check(&self) -> Result<(), KindError> {
        let text = |field: &str, value: &str, empty_ok: bool| {
            let why = if value.is_empty() && !empty_ok {
                "is empty"
            } else if value.len() > 256 {
                "is longer than 256 bytes"
            } else if value.chars().any(char::is_control) {
                "holds control characters"
            } else {
                return Ok(());
            };
            Err(KindError::Bad {
                field: field.to_owned(),
                why: why.to_owned(),
            })
        };
        match self {
            Kind::RootTurn { ctx, event, .. } => {
                text("ctx", ctx, false)?;
                text("event", event.as_deref().unwrap_or(""), true)
            }
            Kind::StepTurn { run, step, .. } => {
                text("run", run, false)?;
                text("step", step, false)
            }
            Kind::Think {
                purpose,
                ctx,
                extra,
                ..
            } => {
                text("purpose", purpose, false)?;
                text("ctx", ctx.as_deref().unwrap_or(""), true)?;
                check_extra(extra)
            }
            Kind::Subagent { handle } => text("handle", handle, false),
            Kind::Command => Ok(()),
        }
    }
}

fn check_extra(extra: &str) -> Result<(), KindError> {
    let bad = |why: String| KindError::Bad {
        field: "extra".to_owned(),
        why,
    };
    if extra.is_empty() {
        return Ok(());
    }
    if extra.len() > 64 * 1024 {
        return Err(bad("is longer than 64 KiB".to_owned()));
    }
    serde_json::from_str::<serde::de::IgnoredAny>(extra)
        .map(|_| ())
        .map_err(|e| bad(format!("is not JSON: {e}")))
}
