//! Start order and stop order of the daemon.
