//! The roll in memory and on disk.
