//! Ends N workers of four processes each: `cgroup.kill` at once, or TERM to the leaders and
//! `cgroup.kill` after a grace.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use crate::clone::Argv;
use crate::spawn::Leaves;
use crate::{Failure, await_line, now};

struct Tree {
    number: usize,
    pidfd: OwnedFd,
    events: File,
}

impl Tree {
    fn is_empty(&self) -> std::io::Result<bool> {
        let mut text = [0; 128];
        let n = self.events.read_at(&mut text, 0)?;
        Ok(text.get(..n).is_some_and(|t| t.starts_with(b"populated 0")))
    }
}

pub fn run(cgroup: &str, n: &str, file: &str, how: &str) -> Result<(), Failure> {
    let leaves = Leaves::new(cgroup)?;
    let program = CString::new(std::env::current_exe()?.into_os_string().into_vec())?;
    let file = CString::new(file)?;
    let mut trees = Vec::new();
    for number in 0..n.parse()? {
        let slot = CString::new(number.to_string())?;
        let argv = Argv::new(&[&program, c"tree", &file, &slot]);
        let pidfd = leaves.start(number, &argv, &Argv::new(&[]))?;
        let events = File::open(leaves.path(number).join("cgroup.events"))?;
        trees.push(Tree {
            number,
            pidfd,
            events,
        });
    }
    println!("ready");
    std::io::stdout().flush()?;
    await_line()?;
    let began = now();
    let grace = how.parse().map(Duration::from_millis).ok();
    let killed_at = Instant::now() + grace.unwrap_or_default();
    for tree in &trees {
        match grace {
            None => kill(&leaves, tree)?,
            Some(_) => rustix::process::pidfd_send_signal(&tree.pidfd, Signal::TERM)?,
        }
    }
    let mut killed = grace.is_none();
    while !trees.is_empty() {
        wait(&trees, if killed { None } else { Some(killed_at) })?;
        if !killed && Instant::now() >= killed_at {
            killed = true;
            for tree in &trees {
                kill(&leaves, tree)?;
            }
        }
        let mut left = Vec::new();
        for tree in trees {
            if tree.is_empty()? {
                rustix::process::waitid(
                    WaitId::PidFd(std::os::fd::AsFd::as_fd(&tree.pidfd)),
                    WaitIdOptions::EXITED,
                )?;
                leaves.remove(tree.number)?;
            } else {
                left.push(tree);
            }
        }
        trees = left;
    }
    println!("{:.1}", (now() - began) / 1e3);
    Ok(())
}

fn kill(leaves: &Leaves, tree: &Tree) -> std::io::Result<()> {
    std::fs::write(leaves.path(tree.number).join("cgroup.kill"), "1")
}

fn wait(trees: &[Tree], until: Option<Instant>) -> Result<(), Failure> {
    let mut fds: Vec<PollFd<'_>> = trees
        .iter()
        .map(|tree| PollFd::new(&tree.events, PollFlags::PRI))
        .collect();
    let pause = until.map_or(Duration::from_millis(50), |at| {
        at.saturating_duration_since(Instant::now())
    });
    let pause = Timespec {
        tv_sec: i64::try_from(pause.as_secs())?,
        tv_nsec: i64::from(pause.subsec_nanos()),
    };
    poll(&mut fds, Some(&pause))?;
    Ok(())
}
