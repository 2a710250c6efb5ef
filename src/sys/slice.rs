//! How soon a thread that wakes up gets a processor that others want too.

#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;

use super::cvt;

/// The least slice there is (sched_setattr(2)), nanoseconds.
const SHORTEST_NS: u64 = 100_000;

/// Asks for the shortest slices for the calling thread and the threads that it starts: its share
/// of the processors stays what it is, and comes in more and smaller parts, so that a thread that
/// seldom runs does not wait for the end of others' slices. Linux 6.12 and later; an older kernel
/// takes the call and ignores it.
///
/// # Errors
/// Those of sched_getattr(2) and sched_setattr(2).
pub fn ask_for_short_ones() -> io::Result<()> {
    // SAFETY: plain integers, for which zeros are values.
    let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
    let size = u32::try_from(size_of::<libc::sched_attr>()).map_err(io::Error::other)?;
    // SAFETY: thread 0 is the calling one; the kernel writes at most `size` bytes of `attr`.
    cvt(unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) })?;
    attr.size = size;
    attr.sched_runtime = SHORTEST_NS;
    // SAFETY: the kernel reads the `size` bytes of `attr` that it says it has.
    cvt(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_asked_keeps_its_policy_and_its_nice_value() {
        let of_thread = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let fields = stat
                .rsplit(')')
                .next()
                .unwrap()
                .split(' ')
                .map(str::to_owned);
            let fields: Vec<String> = fields.collect();
            // Counted from the state, field 3: priority, nice, policy (proc_pid_stat(5)).
            [18, 19, 41].map(|field| fields[field - 2].clone())
        };
        let thread = std::thread::spawn(move || {
            let before = of_thread();
            ask_for_short_ones().unwrap();
            assert_eq!(of_thread(), before);
        });
        thread.join().unwrap();
    }
}
