//! The vocabulary: what a worker, its row and its process are. Plain data, no I/O and no clock.
//!
//! Everybody uses it; it uses nothing of the crate. Specification sections 1, 2 and 5.

#![forbid(unsafe_code)]

mod id;
mod kind;
mod process;
mod rare;
pub mod row;
mod spec;
mod status;
mod time;

pub use id::{NodeId, ParseIdError, WorkerId};
pub use kind::{Kind, KindError, KindType, ReplyTo};
pub use process::{BootId, Pid, ProcessId, ProcessIdError};
pub use rare::{Plain, Rare};
pub use row::{Cancellation, Exit, Leftovers, Owner, Row, Tokens};
pub use spec::{
    Control, Ending, Environment, LeftoversPolicy, Limits, Priority, RestartPolicy, Spec,
    SpecError, Timeouts, WorktreeChoice,
};
pub use status::{Health, HowKnown, Outcome, Rung, Status};
pub use time::{Boot, Mono, Now, Timestamp};
