//! Faults of start-up and I/O with their exit codes.
