//! The verbs of musterctl.
