//! Leaf made, child cloned into it, waited for by its pidfd, leaf removed; with `durable` also
//! the two files that a promise on disk takes.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::process::{WaitId, WaitIdOptions};

use crate::clone::{Argv, start};
use crate::{Failure, now};

/// Where leaves are made.
pub struct Leaves {
    dir: OwnedFd,
    path: PathBuf,
}

impl Leaves {
    pub fn new(path: &str) -> Result<Self, Failure> {
        std::fs::create_dir(path)?;
        let path = PathBuf::from(path);
        let dir = File::open(&path)?.into();
        Ok(Self { dir, path })
    }

    pub fn path(&self, i: usize) -> PathBuf {
        self.path.join(i.to_string())
    }

    /// Makes a leaf and starts a child in it.
    pub fn start(&self, i: usize, argv: &Argv<'_>, env: &Argv<'_>) -> io::Result<OwnedFd> {
        let name = i.to_string();
        rustix::fs::mkdirat(&self.dir, &name, Mode::RWXU)?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let leaf = rustix::fs::openat(&self.dir, &name, flags, Mode::empty())?;
        start(leaf.as_fd(), argv, env)
    }

    /// Busy for an instant after its last process was waited for.
    pub fn remove(&self, i: usize) -> io::Result<()> {
        loop {
            match rustix::fs::unlinkat(&self.dir, i.to_string(), AtFlags::REMOVEDIR) {
                Err(rustix::io::Errno::BUSY) => {}
                other => return Ok(other?),
            }
        }
    }
}

impl Drop for Leaves {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// About as long as a row's file.
const TEXT: &str = r#"schema = 1
id = "00000000"
kind = "command"
owner = { uid = 0, gid = 0 }
argv = ["/bin/true"]
cwd = "/"
created = 2026-01-01T00:00:00.000000Z
started = 2026-01-01T00:00:00.000000Z
status = "live"
pid = 1000
start-ticks = 100000
boot-id = "00000000-0000-0000-0000-000000000000"
pgid = 1000
leaf = "/system.slice/some.service/workers/w-00000000"
runtime-dir = "/run/some/w/00000000"
trace-id = "00000000"
generation = 2
"#;

/// A directory of durable files.
struct Durable {
    dir: OwnedFd,
    path: PathBuf,
}

impl Durable {
    fn new(path: &Path) -> Result<Self, Failure> {
        std::fs::create_dir_all(path)?;
        let dir = File::open(path)?.into();
        let path = path.to_owned();
        Ok(Self { dir, path })
    }

    /// Temporary file, fsync, rename, fsync of the directory.
    fn write(&self, i: usize) -> io::Result<()> {
        let (name, temporary) = (format!("{i}.toml"), format!(".{i}.toml.new"));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(fd);
        file.write_all(TEXT.as_bytes())?;
        rustix::fs::fsync(&file)?;
        rustix::fs::renameat(&self.dir, &temporary, &self.dir, &name)?;
        Ok(rustix::fs::fsync(&self.dir)?)
    }
}

impl Drop for Durable {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

struct Job<'a> {
    leaves: Leaves,
    durable: Option<Durable>,
    argv: Argv<'a>,
    env: Argv<'a>,
}

impl Job<'_> {
    fn begin(&self, i: usize) -> io::Result<OwnedFd> {
        if let Some(durable) = &self.durable {
            durable.write(i)?;
        }
        self.leaves.start(i, &self.argv, &self.env)
    }

    fn end(&self, i: usize, pidfd: &OwnedFd) -> io::Result<()> {
        let status = rustix::process::waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED)?;
        if status.and_then(|s| s.exit_status()) != Some(0) {
            return Err(io::Error::other("a child did not end with 0"));
        }
        if let Some(durable) = &self.durable {
            durable.write(i)?;
        }
        self.leaves.remove(i)
    }

    fn one_by_one(&self, n: usize) -> Result<(), Failure> {
        for i in 0..n {
            let pidfd = self.begin(i)?;
            self.end(i, &pidfd)?;
        }
        Ok(())
    }

    fn pipelined(&self, n: usize) -> Result<(), Failure> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut running: Vec<Option<OwnedFd>> = Vec::new();
        let mut ended = 0;
        let mut events: Vec<epoll::Event> = Vec::with_capacity(256);
        while ended < n {
            if running.len() < n {
                let i = running.len();
                let pidfd = self.begin(i)?;
                let data = epoll::EventData::new_u64(i as u64);
                epoll::add(&set, &pidfd, data, epoll::EventFlags::IN)?;
                running.push(Some(pidfd));
            }
            let zero = rustix::event::Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let wait = (running.len() < n).then_some(&zero);
            events.clear();
            epoll::wait(&set, spare_capacity(&mut events), wait)?;
            for event in &events {
                let i = usize::try_from(event.data.u64())?;
                if let Some(pidfd) = running.get_mut(i).and_then(Option::take) {
                    epoll::delete(&set, &pidfd)?;
                    self.end(i, &pidfd)?;
                    ended += 1;
                }
            }
        }
        Ok(())
    }
}

pub fn run(cgroup: &str, n: &str, shape: &str, options: &[&str]) -> Result<(), Failure> {
    let n = n.parse()?;
    let find = |key: &str| options.iter().find_map(|option| option.strip_prefix(key));
    let ballast: usize = find("ballast=").map_or(Ok(0), str::parse)?;
    let ballast = vec![1_u8; ballast << 20];
    let program = CString::new("/bin/true")?;
    let job = Job {
        leaves: Leaves::new(cgroup)?,
        durable: find("durable=")
            .map(|dir| Durable::new(Path::new(dir)))
            .transpose()?,
        argv: Argv::new(&[&program]),
        env: Argv::new(&[]),
    };
    let began = now();
    match shape {
        "one" => job.one_by_one(n)?,
        _ => job.pipelined(n)?,
    }
    println!("{:.1}", (now() - began) / n as f64);
    std::hint::black_box(&ballast);
    Ok(())
}
