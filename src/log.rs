//! Tracing to journald or stderr.
