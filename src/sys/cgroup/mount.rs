//! Which directory is which cgroup: `/proc/self/mountinfo` and the `0::` line of
//! `/proc/PID/cgroup`. Both are relative to our cgroup namespace (cgroup_namespaces(7)).

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// linux/magic.h.
const CGROUP2_SUPER_MAGIC: i64 = 0x6367_7270;

/// One mount of the cgroup2 hierarchy, maybe of a part of it only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where.
    pub(super) point: PathBuf,
    /// Which cgroup is seen there.
    pub(super) root: PathBuf,
    /// Not mounted read-only.
    pub(super) writable: bool,
}

impl Mount {
    /// The directory of a cgroup, if this mount shows it.
    fn directory(&self, cgroup: &Path) -> Option<PathBuf> {
        Some(join(&self.point, cgroup.strip_prefix(&self.root).ok()?))
    }

    /// The cgroup of a directory below this mount.
    fn cgroup(&self, directory: &Path) -> Option<PathBuf> {
        Some(join(&self.root, directory.strip_prefix(&self.point).ok()?))
    }
}

/// Without the slash that `Path::join` leaves behind for an empty rest.
fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() {
        base.to_owned()
    } else {
        base.join(rest)
    }
}

/// What was read, and the file it was read from.
struct Known {
    file: File,
    mounts: Arc<[Mount]>,
}

impl Known {
    fn read(path: &str) -> io::Result<Self> {
        // Opened before it is read: a change in between is told by the next poll.
        let mut file = File::open(path)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mut mounts = parse_mounts(&text);
        mounts.sort_by_key(|mount| !mount.writable);
        let mounts = mounts.into();
        Ok(Self { file, mounts })
    }

    /// proc_pid_mounts(5): a change of the mounts makes the open file ready.
    fn is_current(&self) -> bool {
        let mut fds = [PollFd::new(&self.file, PollFlags::PRI)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready == 0)
    }
}

/// All mounts of cgroup2; writable ones first. Read again only when mounts have changed: a sweep
/// asks for every row, and the kernel writes out every mount of the machine for it.
pub(super) fn all() -> io::Result<Arc<[Mount]>> {
    static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    match &*known {
        Some(known) if known.is_current() => Ok(known.mounts.clone()),
        _ => Ok(known
            .insert(Known::read("/proc/self/mountinfo")?)
            .mounts
            .clone()),
    }
}

/// The directory of our own cgroup, and whether it is mounted for writing.
pub(super) fn own() -> io::Result<(PathBuf, bool)> {
    let cgroup = parse_own(&std::fs::read("/proc/self/cgroup")?)?;
    let mounts = all()?;
    let none = mounts.is_empty();
    mounts
        .iter()
        .filter_map(|mount| Some((mount.directory(&cgroup)?, mount.writable)))
        // Another mount may cover it.
        .find(|(directory, _)| is_cgroup2(directory))
        .ok_or_else(|| {
            let why = if none {
                "cgroup2 is not mounted"
            } else {
                "our own cgroup is on no mount"
            };
            io::Error::new(io::ErrorKind::NotFound, why)
        })
}

/// The directory of a cgroup, on whichever mount shows it.
pub(super) fn directory_of(cgroup: &Path) -> io::Result<PathBuf> {
    all()?
        .iter()
        .find_map(|mount| mount.directory(cgroup))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no mount shows this cgroup"))
}

/// The cgroup of a directory, as the kernel names it.
pub(super) fn cgroup_of(directory: &Path) -> Option<PathBuf> {
    // The innermost mount is the one that is seen.
    let mounts = all().ok()?;
    let mount = mounts
        .iter()
        .filter(|mount| directory.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.as_os_str().len())?;
    mount.cgroup(directory)
}

pub(super) fn is_cgroup2(directory: &Path) -> bool {
    // The width of f_type differs between machines.
    #[allow(clippy::unnecessary_cast)]
    rustix::fs::statfs(directory).is_ok_and(|fs| fs.f_type as i64 == CGROUP2_SUPER_MAGIC)
}

/// proc_pid_mountinfo(5): `id parent dev root point options [tags] - type source options`.
pub(super) fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n')
        .filter_map(parse_mount)
        .collect()
}

fn parse_mount(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
    if *fields.get(dash + 1)? != b"cgroup2" {
        return None;
    }
    let read_only = |field: &[u8]| field.split(|b| *b == b',').any(|option| option == b"ro");
    let writable = !read_only(fields.get(5)?) && !read_only(fields.get(dash + 3)?);
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    Some(Mount {
        root: path(fields.get(3)?),
        point: path(fields.get(4)?),
        writable,
    })
}

/// Space, tab, newline and backslash are written as three octal digits.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        if let (
            b'\\',
            [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ],
        ) = (first, tail)
        {
            plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            plain.push(*first);
            rest = tail;
        }
    }
    plain
}

/// The path of the `0::` line. A removed cgroup carries the word ` (deleted)`.
pub(super) fn parse_own(text: &[u8]) -> io::Result<PathBuf> {
    let line = text
        .split(|b| *b == b'\n')
        .find_map(|line| line.strip_prefix(b"0::"));
    let path = line.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "the kernel has no cgroup2 hierarchy in use",
        )
    })?;
    let path = path.strip_suffix(b" (deleted)").unwrap_or(path);
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_again_when_they_change_and_not_otherwise() {
        assert!(Known::read("/proc/self/mountinfo").unwrap().is_current());
        // In a namespace of this thread's own: its mounts are nobody else's.
        let seen = std::thread::spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).ok()?;
            let mount = |args: &[&str]| {
                let run = std::process::Command::new("mount").args(args).status();
                run.is_ok_and(|status| status.success()).then_some(())
            };
            mount(&["--make-rprivate", "/"])?;
            let known = Known::read("/proc/thread-self/mountinfo").unwrap();
            let before = known.is_current();
            mount(&["-t", "tmpfs", "none", "/tmp"])?;
            Some((before, known.is_current()))
        })
        .join()
        .unwrap();
        // None: an ordinary user may make no namespace.
        assert!(matches!(seen, None | Some((true, false))), "{seen:?}");
    }

    const HYBRID: &[u8] = b"\
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:38 /kube\\040pods/x /mnt/a\\134b\\011 ro,relatime shared:4 master:1 - cgroup2 none rw
43 31 0:38 / /ro rw - cgroup2 none ro,nsdelegate
garbage
44 31 0:38 / /short
";

    #[test]
    fn mounts_are_found_wherever_they_are_with_escapes_and_tags() {
        let mounts = parse_mounts(HYBRID);
        let shown: Vec<(&str, &str, bool)> = mounts
            .iter()
            .map(|m| {
                (
                    m.point.to_str().unwrap(),
                    m.root.to_str().unwrap(),
                    m.writable,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("/sys/fs/cgroup/unified", "/", true),
                ("/mnt/a\\b\t", "/kube pods/x", false),
                ("/ro", "/", false),
            ]
        );
    }

    #[test]
    fn a_mount_of_a_part_shows_only_that_part() {
        let mount = |root: &str| Mount {
            point: "/sys/fs/cgroup".into(),
            root: root.into(),
            writable: true,
        };
        for (root, cgroup, directory) in [
            ("/", "/", Some("/sys/fs/cgroup")),
            ("/", "/a/b", Some("/sys/fs/cgroup/a/b")),
            ("/a", "/a", Some("/sys/fs/cgroup")),
            ("/a", "/a/b", Some("/sys/fs/cgroup/b")),
            ("/a", "/ab", None),
            ("/a", "/", None),
            ("/..", "/", None),
            ("/..", "/../b", Some("/sys/fs/cgroup/b")),
        ] {
            let shown = mount(root).directory(Path::new(cgroup));
            assert_eq!(
                shown.as_deref(),
                directory.map(Path::new),
                "{root} {cgroup}"
            );
            if let Some(directory) = shown {
                assert_eq!(
                    mount(root).cgroup(&directory).as_deref(),
                    Some(Path::new(cgroup))
                );
            }
        }
    }

    #[test]
    fn the_own_path_may_be_of_a_removed_group_and_may_be_missing() {
        let text = b"3:cpu:/x\n0::/a.slice/b.service (deleted)\n";
        assert_eq!(parse_own(text).unwrap(), Path::new("/a.slice/b.service"));
        assert!(parse_own(b"3:cpu:/x\n").is_err());
    }
}
