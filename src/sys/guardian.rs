//! The guardian.
