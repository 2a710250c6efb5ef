//! The collector: gather, decide, answer what decide asks; apply or dry run.

pub mod report;
