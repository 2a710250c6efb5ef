//! Reading `/proc` (proc_pid_stat(5)): stat lines, environments, children. Blocking; a scan of
//! a busy machine takes tens of milliseconds, so it is done off the event loop.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::OsStringExt;

use crate::worker::Pid;

/// Most of an environment that is looked at, bytes.
const ENVIRON_MAX: u64 = 4 << 20;

/// What `/proc/PID/stat` tells of a process. Times are in clock ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Field 1.
    pub pid: Pid,
    /// Field 2 without its parentheses; bytes that are not UTF-8 replaced.
    pub comm: String,
    /// Field 3. `Z` does not mean dead: other threads of a zombie leader may run.
    pub state: char,
    /// Field 4; 0 for what has none in this pid namespace.
    pub ppid: i32,
    /// Field 5.
    pub pgrp: i32,
    /// Field 6.
    pub session: i32,
    /// Fields 14 and 15, user and system time of its own.
    pub cpu_ticks: u64,
    /// Field 19.
    pub nice: i32,
    /// Field 20.
    pub threads: u32,
    /// Field 22, since boot.
    pub start_ticks: u64,
}

impl Stat {
    /// All of it has ended; at most its status is still to be taken.
    pub fn has_ended(&self) -> bool {
        self.main_thread_ended() && self.threads <= 1
    }

    /// Its main thread has ended and others go on. The kernel then answers for it as for a
    /// zombie: no environment, no working directory, and `cgroup.kill` does not reach it.
    pub fn is_headless(&self) -> bool {
        self.main_thread_ended() && self.threads > 1
    }

    fn main_thread_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }
}

/// Reads one process. `NotFound` if it is gone or hidden.
pub fn stat(pid: Pid) -> io::Result<Stat> {
    let mut text = Vec::with_capacity(512);
    match std::fs::File::open(format!("/proc/{pid}/stat"))
        .and_then(|mut file| file.read_to_end(&mut text))
    {
        // The process ended between open and read.
        Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {
            return Err(io::ErrorKind::NotFound.into());
        }
        other => other?,
    };
    parse(pid, &text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/stat is not understood"),
        )
    })
}

/// The command name may hold anything, also `) ` and newlines: it ends at the last `)`.
fn parse(pid: Pid, text: &[u8]) -> Option<Stat> {
    let open = text.iter().position(|b| *b == b'(')?;
    let close = text.iter().rposition(|b| *b == b')')?;
    let comm = text.get(open + 1..close)?;
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // A line cut off within field 22 would pass for other ticks: there must be more after it.
    fields.get(20)?;
    // fields[0] is field 3.
    let field = |number: usize| fields.get(number - 3).copied();
    let time = |number: usize| field(number)?.parse::<u64>().ok();
    Some(Stat {
        pid,
        comm: String::from_utf8_lossy(comm).into_owned(),
        state: field(3)?.chars().next()?,
        ppid: field(4)?.parse().ok()?,
        pgrp: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        cpu_ticks: time(14)?.saturating_add(time(15)?),
        nice: field(19)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
        start_ticks: time(22)?,
    })
}

/// Whose a process is, and of what sort (proc_pid_status(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Real, effective and saved uid.
    pub uids: [u32; 3],
    /// Effective gid.
    pub gid: u32,
    /// Pid of the process that this is a thread of; its own for a process.
    pub leader: i32,
    /// A thread of the kernel.
    pub kernel: bool,
}

/// Reads it. `NotFound` if the process is gone or hidden.
pub fn standing(pid: Pid) -> io::Result<Standing> {
    let text = std::fs::read(format!("/proc/{pid}/status"))?;
    parse_standing(pid, &String::from_utf8_lossy(&text)).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{pid}/status is not understood"),
        )
    })
}

fn parse_standing(pid: Pid, text: &str) -> Option<Standing> {
    let field = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let numbers = line.split_ascii_whitespace();
        Some(
            numbers
                .filter_map(|n| n.parse::<u32>().ok())
                .collect::<Vec<_>>(),
        )
    };
    let uids = field("Uid")?;
    let parent = *field("PPid")?.first()?;
    // Older kernels do not say; theirs are the second process or its children, without memory.
    let kernel = match field("Kthread") {
        Some(kernel) => kernel.first() == Some(&1),
        None => field("VmSize").is_none() && (parent == 2 || (parent == 0 && pid.get() == 2)),
    };
    Some(Standing {
        uids: [*uids.first()?, *uids.get(1)?, *uids.get(2)?],
        gid: *field("Gid")?.get(1)?,
        leader: i32::try_from(*field("Tgid")?.first()?).ok()?,
        kernel,
    })
}

/// Program and arguments, at most `max` bytes of them; empty for what has none. Can block for as
/// long as somebody holds the process's memory map.
pub fn command_line(pid: Pid, max: u64) -> io::Result<Vec<OsString>> {
    let mut bytes = Vec::new();
    std::fs::File::open(format!("/proc/{pid}/cmdline"))?
        .take(max)
        .read_to_end(&mut bytes)?;
    let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let words = text.split(|byte| *byte == 0);
    Ok(words
        .map(|word| OsString::from_vec(word.to_vec()))
        .collect())
}

/// Every process but init and this one. What vanishes meanwhile is skipped; a stat line that
/// cannot be read or understood is an error, since a gap would look like a death.
pub fn scan() -> io::Result<Vec<Stat>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<i64>().ok());
        let Some(Ok(pid)) = pid.map(Pid::new) else {
            continue;
        };
        match stat(pid) {
            Ok(stat) => all.push(stat),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(all)
}

/// Supplementary groups of a process (proc_pid_status(5)).
pub fn groups_of(pid: Pid) -> io::Result<Vec<u32>> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = line.unwrap_or_default().split_ascii_whitespace();
    Ok(numbers.filter_map(|n| n.parse().ok()).collect())
}

/// The value of one variable in the environment a process was started with. `None` if it is
/// not there or not readable by us.
pub fn environ_value(pid: Pid, name: &str) -> Option<Vec<u8>> {
    let mut text = environ(format!("/proc/{pid}/environ")).unwrap_or_default();
    if text.is_empty() && stat(pid).is_ok_and(|stat| stat.is_headless()) {
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        text = threads
            .flatten()
            .filter_map(|thread| environ(thread.path().join("environ")))
            .find(|text| !text.is_empty())?;
    }
    text.split(|b| *b == 0).find_map(|entry| {
        let value = entry.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=").map(<[u8]>::to_vec)
    })
}

fn environ(path: impl AsRef<std::path::Path>) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(ENVIRON_MAX).read_to_end(&mut text).ok()?;
    Some(text)
}

/// Our children, ended ones that nobody waited for included. From
/// `/proc/self/task/*/children` (children belong to threads), or by a scan where the kernel
/// has no such file.
pub fn own_children() -> io::Result<Vec<Pid>> {
    let mut children = Vec::new();
    for task in std::fs::read_dir("/proc/self/task")? {
        match std::fs::read_to_string(task?.path().join("children")) {
            Ok(text) => children.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| Pid::new(pid.parse().ok()?).ok()),
            ),
            // Either that thread ended or the kernel was built without these files.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if !std::path::Path::new("/proc/self/task")
                    .join(std::process::id().to_string())
                    .join("children")
                    .exists()
                {
                    return children_by_scan();
                }
            }
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(children)
}

fn children_by_scan() -> io::Result<Vec<Pid>> {
    let own = i32::try_from(std::process::id()).map_err(io::Error::other)?;
    let all = scan()?.into_iter().filter(|stat| stat.ppid == own);
    Ok(all.map(|stat| stat.pid).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "S 7 8 9 0 -1 4194560 100 0 0 0 12 30 0 0 20 -5 3 0 987654 1000 50 0";

    #[test]
    fn a_command_name_may_hold_what_the_format_uses() {
        let pid = Pid::new(4000).unwrap();
        for comm in ["sleep", "a) R 1 1 (", "", ") ", "two\nlines", "((("] {
            let line = format!("4000 ({comm}) {REST}\n");
            let stat = parse(pid, line.as_bytes()).unwrap();
            assert_eq!(stat.comm, comm);
            assert_eq!(
                (stat.state, stat.ppid, stat.pgrp, stat.session),
                ('S', 7, 8, 9)
            );
            assert_eq!((stat.cpu_ticks, stat.nice, stat.threads), (42, -5, 3));
            assert_eq!(stat.start_ticks, 987_654);
        }
    }

    #[test]
    fn whose_a_process_is_and_of_what_sort() {
        let pid = Pid::new(7).unwrap();
        let text = |more: &str| {
            format!("Name:\tUid: 9\nTgid:\t7\nPid:\t7\n{more}Uid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\n")
        };
        for (more, kernel) in [
            ("PPid:\t1\nKthread:\t0\n", false),
            ("PPid:\t2\nKthread:\t1\n", true),
            ("PPid:\t2\n", true),
            ("PPid:\t2\nVmSize:\t10 kB\n", false),
            ("PPid:\t1\n", false),
        ] {
            let found = parse_standing(pid, &text(more)).unwrap();
            assert_eq!((found.uids, found.gid, found.leader), ([1, 2, 3], 6, 7));
            assert_eq!(found.kernel, kernel, "{more:?}");
        }
        assert_eq!(parse_standing(pid, "Uid:\t1\n"), None);
    }

    #[test]
    fn the_standing_and_the_command_line_of_a_child_are_read() {
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("1000").spawn().unwrap();
        let pid = Pid::new(child.id().into()).unwrap();
        let found = standing(pid).unwrap();
        assert_eq!(found.uids[1], rustix::process::geteuid().as_raw());
        assert_eq!((found.leader, found.kernel), (pid.get(), false));
        // The kernel lets the parent go on before the new image has its arguments.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while command_line(pid, 1 << 20).unwrap() != ["sleep", "1000"] {
            assert!(std::time::Instant::now() < end);
            std::thread::yield_now();
        }
        assert_eq!(command_line(pid, 7).unwrap(), ["sleep", "1"]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn half_a_line_is_not_understood() {
        let pid = Pid::new(4000).unwrap();
        let line = format!("4000 (x) {REST}");
        for end in 0..line.len() - 12 {
            assert_eq!(parse(pid, &line.as_bytes()[..end]), None, "{end}");
        }
    }
}
