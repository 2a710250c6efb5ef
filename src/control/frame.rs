//! What frames say, in both directions. An object is a frame; what is not known of it is skipped
//! and counted, so that either side may be newer than the other.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::worker::{Kind, WorkerId};

/// From a worker.
#[derive(Debug, Clone)]
pub enum Up {
    /// It has read its `spawn` frame and works.
    Ready,
    /// It answers a `ping`.
    Pong {
        /// The ping's number.
        seq: u64,
    },
    /// Something happened that is of interest to its own people.
    Event {
        /// What, in one word.
        event: String,
    },
    /// Tokens used since the last `usage`.
    Usage {
        /// Into the model.
        input_tokens: u64,
        /// Out of the model.
        output_tokens: u64,
    },
    /// Terminal: the turn is over. The whole frame is kept, for whoever asked.
    TurnDone(Box<RawValue>),
    /// Terminal: the work is done.
    Result {
        /// What came of it.
        outcome: Option<Box<RawValue>>,
    },
    /// Terminal: the work has failed.
    Failed {
        /// Why, in words; JSON if it is no text, empty if nothing was said.
        error: String,
    },
    /// It asks musterd for something.
    Request {
        /// Its own number for the request; the answer carries it.
        id: u64,
        /// `spawn`, `cancel` or `status`.
        name: String,
        /// What belongs to it.
        args: Option<Box<RawValue>>,
    },
}

/// One object as it was understood.
#[derive(Debug, Clone)]
pub enum Heard {
    /// A frame, and so many of its fields were not known.
    Frame(Up, u32),
    /// A type that is not known, or none.
    Unknown,
    /// A known type with a field that is missing or unusable; its name.
    Malformed(&'static str),
}

/// The bytes are no JSON object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("what came is no JSON object: {0}")]
pub struct NoFrame(String);

/// Known names of fields, of whichever type.
const KNOWN: [&str; 11] = [
    "type",
    "seq",
    "event",
    "fields",
    "input_tokens",
    "output_tokens",
    "outcome",
    "error",
    "id",
    "name",
    "args",
];

/// The fields of an object whose names are known, unread.
struct Object<'a> {
    known: [Option<&'a RawValue>; KNOWN.len()],
    others: u32,
}

impl<'a> Object<'a> {
    fn field<T: Deserialize<'a>>(&self, name: &'static str) -> Result<T, &'static str> {
        let raw = self.raw(name).ok_or(name)?;
        serde_json::from_str(raw.get()).map_err(|_| name)
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        let at = KNOWN.iter().position(|known| *known == name)?;
        self.known[at]
    }

    /// Fields beside its type and those `of` it.
    fn beside(&self, of: &[&str]) -> u32 {
        let strange = KNOWN
            .iter()
            .zip(&self.known)
            .filter(|(name, value)| value.is_some() && **name != "type" && !of.contains(name));
        self.others + u32::try_from(strange.count()).unwrap_or(0)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
                let mut object = Object {
                    known: [None; KNOWN.len()],
                    others: 0,
                };
                while let Some(Name(name)) = map.next_key()? {
                    match KNOWN.iter().position(|known| *known == name) {
                        Some(at) => object.known[at] = Some(map.next_value()?),
                        None => {
                            object.others = object.others.saturating_add(1);
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(object)
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

/// Borrowed where it has no escapes; a plain `Cow` never borrows.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl Up {
    /// Reads one frame.
    ///
    /// # Errors
    /// [`NoFrame`] if the bytes are not one JSON object.
    pub fn read(bytes: &[u8]) -> Result<Heard, NoFrame> {
        let text = std::str::from_utf8(bytes).map_err(|e| NoFrame(e.to_string()))?;
        let object: Object<'_> = serde_json::from_str(text).map_err(|e| NoFrame(e.to_string()))?;
        let Ok(word) = object.field::<Cow<'_, str>>("type") else {
            return Ok(Heard::Unknown);
        };
        Ok(match understood(&word, &object, text) {
            // What else it says is for whoever asked, so nothing of it is unknown.
            Some(Ok((up @ Up::TurnDone(_), _))) => Heard::Frame(up, 0),
            Some(Ok((up, of))) => Heard::Frame(up, object.beside(of)),
            Some(Err(field)) => Heard::Malformed(field),
            None => Heard::Unknown,
        })
    }
}

/// A frame, and the names of its fields.
type Understood = Result<(Up, &'static [&'static str]), &'static str>;

/// `None` for a type that is not known.
fn understood(word: &str, object: &Object<'_>, text: &str) -> Option<Understood> {
    let boxed = |name| object.raw(name).map(ToOwned::to_owned);
    let tokens = |name| match object.raw(name) {
        None => Ok(0),
        Some(_) => object.field(name),
    };
    Some(match word {
        "ready" => Ok((Up::Ready, &[])),
        "pong" => object
            .field("seq")
            .map(|seq| (Up::Pong { seq }, &["seq"] as &[_])),
        "event" => object
            .field("event")
            .map(|event| (Up::Event { event }, &["event", "fields"] as &[_])),
        "usage" => tokens("input_tokens").and_then(|input_tokens| {
            let output_tokens = tokens("output_tokens")?;
            let up = Up::Usage {
                input_tokens,
                output_tokens,
            };
            Ok((up, &["input_tokens", "output_tokens"] as &[_]))
        }),
        "turn_done" => RawValue::from_string(text.to_owned())
            .map(|whole| (Up::TurnDone(whole), &[] as &[_]))
            .map_err(|_| "type"),
        "result" => Ok((
            Up::Result {
                outcome: boxed("outcome"),
            },
            &["outcome"],
        )),
        // Whatever it says of why: that it failed is what counts.
        "failed" => {
            let error = match (object.field("error"), object.raw("error")) {
                (Ok(text), _) => text,
                (Err(_), Some(other)) => other.get().to_owned(),
                (Err(_), None) => String::new(),
            };
            Ok((Up::Failed { error }, &["error"]))
        }
        "request" => object.field("id").and_then(|id| {
            let name = object.field("name")?;
            let args = boxed("args");
            Ok((
                Up::Request { id, name, args },
                &["id", "name", "args"] as &[_],
            ))
        }),
        _ => return None,
    })
}

/// To a worker.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Down<'a> {
    /// First, and once: why it exists and what it is to do.
    Spawn(Box<Spawn<'a>>),
    /// To be answered with `pong` and the same number.
    Ping {
        /// Its number.
        seq: u64,
    },
    /// Stop after the step at hand, until `resume`.
    Pause,
    /// Go on.
    Resume,
    /// Its end was asked for; the stop signal follows after the grace.
    Cancel {
        /// Why.
        reason: &'a str,
    },
    /// A word from outside.
    Inject {
        /// What.
        message: &'a RawValue,
    },
    /// The answer to a `request`, or to what a think was asked.
    Result {
        /// The request's number.
        id: u64,
        /// What came of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Box<RawValue>>,
        /// Why nothing came of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Fault>,
    },
}

/// An error in a `result`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The last word of the D-Bus error name, `Unsettled` or `Failed`.
    pub name: String,
    /// In words.
    pub message: String,
}

/// What a worker is told first.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs, reason = "named as in the row and in Spawn's dictionary")]
pub struct Spawn<'a> {
    pub worker: WorkerId,
    pub node: u64,
    pub name: &'a str,
    /// Type and fields.
    pub kind: &'a Kind,
    pub label: String,
    pub parent: Option<WorkerId>,
    pub depth: u32,
    pub msg_depth: u32,
    pub trace_id: &'a str,
    /// As it was given; `null` for none.
    pub payload: Option<&'a RawValue>,
    pub limits: Limits,
}

/// What it is held to. Lengths of time in microseconds, `null` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[allow(missing_docs, reason = "named as in Spawn's dictionary")]
pub struct Limits {
    /// From its start. It is ended a while after this, so that it can end by itself first.
    pub deadline_usec: Option<u64>,
    pub idle_timeout_usec: Option<u64>,
    pub progress_timeout_usec: Option<u64>,
    pub pong_timeout_usec: Option<u64>,
    /// From the `cancel` frame to the stop signal.
    pub grace_usec: Option<u64>,
    pub tokens_max: Option<u64>,
    pub memory_max: Option<u64>,
    pub tasks_max: Option<u64>,
    pub cpu_weight: Option<u64>,
    pub cpu_max_percent: Option<u32>,
    pub nice: Option<i32>,
    /// Longer frames of the worker are skipped.
    pub max_frame: u64,
}

impl Down<'_> {
    /// The frame with its length. `None` if it is too long to be one.
    pub fn encode(&self) -> Option<Vec<u8>> {
        super::codec::encode(&serde_json::to_vec(self).ok()?)
    }
}

/// A frame that may be passed on from outside: `inject`, `pause` or `resume`, with its length.
///
/// # Errors
/// In words: what else it is.
pub fn passed_on(text: &str) -> Result<Vec<u8>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Given<'a> {
        #[serde(rename = "type", borrow)]
        word: Cow<'a, str>,
        #[serde(borrow, default, deserialize_with = "given")]
        message: Option<&'a RawValue>,
    }
    /// `null` is a message, none is not.
    fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
        <&RawValue>::deserialize(from).map(Some)
    }
    if !text.trim_start().starts_with('{') {
        return Err("the frame is no JSON object".to_owned());
    }
    let given: Given<'_> =
        serde_json::from_str(text).map_err(|e| format!("the frame cannot be read: {e}"))?;
    let frame = match (&*given.word, given.message) {
        ("inject", Some(message)) => Down::Inject { message },
        ("inject", None) => return Err("inject needs a \"message\"".to_owned()),
        ("pause", None) => Down::Pause,
        ("resume", None) => Down::Resume,
        ("pause" | "resume", Some(_)) => {
            return Err(format!("{} has no \"message\"", given.word));
        }
        (other, _) => {
            let other: String = other.chars().take(64).collect();
            return Err(format!(
                "{other:?} is not passed on; only inject, pause and resume are"
            ));
        }
    };
    frame
        .encode()
        .ok_or_else(|| "the frame is too long".to_owned())
}

#[cfg(test)]
mod tests;
