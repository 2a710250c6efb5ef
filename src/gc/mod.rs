//! The collector: one pure decision about each row, and the sweep that brings it the facts it
//! asks for. A sweep changes nothing: it answers verdicts, and the supervisor carries them out
//! after checking that the row is still what was judged. Specification sections 3 and 4.
//!
//! ```text
//! rows -> gather (is it alive?) -> decide -> [Ask -> worktree probe -> decide] -> verdicts
//! ```

pub mod decide;
pub mod facts;
mod gather;
pub mod report;
mod shared;
mod sweep;
pub mod worktree;

pub use gather::{Look, Process};
pub use sweep::{RowFacts, SweepInput, SweepOutcome, Verdict, sweep};
