//! The worktree probe on real repositories, with the real helper.

mod bench;
mod helpers;
mod hostile;
mod states;
