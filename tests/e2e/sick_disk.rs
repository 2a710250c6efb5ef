//! A disk that is full, slow or failing: workers go on, reads are served, a cancel does not
//! wait, new workers are refused with the reason, and what was not written is written later.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::support::{Reaped, World, means, proc, text, wait_for, wait_until};

struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(path: &Path, options: &str) -> Result<Tmpfs, String> {
        let out = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(path)
            .output()
            .map_err(|e| e.to_string())?;
        if out.status.success() {
            Ok(Tmpfs(path.to_owned()))
        } else {
            Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Takes every free byte of a file system.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = fs::File::create(path).unwrap();
    for size in [65536, 4096, 512, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

#[test]
fn a_full_disk_refuses_new_workers_and_loses_nothing() {
    let test = "a_full_disk_refuses_new_workers_and_loses_nothing";
    if !means::is_root() {
        return means::not_mine(test, "only root can mount a small file system");
    }
    let world = World::new();
    fs::create_dir(world.state()).unwrap();
    let disk = match Tmpfs::mount(&world.state(), "size=1m,mode=700") {
        Ok(disk) => disk,
        Err(e) => return means::not_run(test, &format!("tmpfs cannot be mounted: {e}")),
    };
    let nap = world.helper("nap");
    let runs = world.run(&["--name", "runs"], &[&nap, "nap", world.mark()]);
    let ends = world.run(&["--name", "ends"], &[&nap, "nap", world.mark()]);
    let on_disk = fs::read_to_string(world.row_file(&ends)).unwrap();
    let filler = world.state().join("filler");
    fill(&filler);

    world
        .ctl(&["cancel", "ends", "--reason", "on a full disk"])
        .ok();
    let row = world.show(&ends);
    assert_eq!(
        text(&row["status"]),
        "exited",
        "memory stays the truth: {row}"
    );
    assert_eq!(world.status_of(&runs), "live");
    wait_until("the trouble is told", || {
        !world.service()["degraded"].as_array().unwrap().is_empty()
    });
    let said = world.ctl(&["run", "--no-wait", "--name", "new", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    assert!(
        said.stderr.contains("No space left") || said.stderr.contains("full"),
        "{said:?}"
    );
    assert_eq!(world.rows().len(), 2);

    fs::remove_file(&filler).unwrap();
    wait_until("everything is written when space returns", || {
        let now = fs::read_to_string(world.row_file(&ends)).unwrap();
        now != on_disk && now.contains("exited") && now.contains("on a full disk")
    });
    wait_until("the trouble is over", || {
        world.service()["degraded"].as_array().unwrap().is_empty()
    });
    world.run_to_end(&["--name", "new"], &["true"]);
    world.ctl(&["cancel", "runs"]).ok();
    world.stop_daemon();
    assert_eq!(world.rows().len(), 3);
    world.stop_daemon();
    drop(disk);
    world.end();
}

/// strace on the running daemon, with a fault in its system calls. The fault ends with it.
struct Fault(Reaped);

impl Fault {
    fn inject(world: &World, fault: &str) -> Fault {
        let pid = world.daemon_pid().unwrap();
        let log = world.path().join("strace.log");
        let child = Command::new("strace")
            .args(["-f", "-q", "-o", log.to_str().unwrap()])
            .args(["-e", "trace=fsync,fdatasync", "-e"])
            .arg(format!("inject=fsync,fdatasync:{fault}"))
            .args(["-p", &pid.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tracer = child.id().to_string();
        let fault = Fault(Reaped(child));
        wait_until("every thread of the daemon is traced", || {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
                return false;
            };
            tasks.flatten().all(|task| {
                fs::read_to_string(task.path().join("status"))
                    .is_ok_and(|s| s.contains(&format!("TracerPid:\t{tracer}\n")))
            })
        });
        fault
    }

    /// strace detaches in order.
    fn over(mut self) {
        let pid = i32::try_from(self.0.0.id()).unwrap();
        proc::signal(pid, Signal::SIGINT);
        wait_for("strace ends", || self.0.0.try_wait().unwrap());
    }
}

#[test]
fn a_slow_disk_does_not_hold_up_a_cancel() {
    if !means::traceable("a_slow_disk_does_not_hold_up_a_cancel") {
        return;
    }
    let world = World::new();
    let nap = world.helper("nap");
    let id = world.run(&[], &[&nap, "nap", world.mark()]);
    // Each write has two of them, 20 s together.
    let fault = Fault::inject(&world, "delay_enter=10000000");
    let begun = Instant::now();
    let mut cancel = Reaped(
        world
            .command(&["cancel", "--no-block", &id])
            .spawn()
            .unwrap(),
    );
    wait_until("the worker is ended", || {
        world.worker_processes().is_empty()
    });
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    wait_for("the client has its answer", || cancel.0.try_wait().unwrap());
    assert!(
        begun.elapsed() < Duration::from_secs(9),
        "{:?}",
        begun.elapsed()
    );
    // Reads are served meanwhile, and say what is wrong.
    let service = world.service();
    assert!(
        !service["degraded"].as_array().unwrap().is_empty(),
        "{service}"
    );
    fault.over();
    wait_until("it is on disk in the end", || {
        fs::read_to_string(world.row_file(&id))
            .unwrap()
            .contains("exited")
    });
    world.end();
}

#[test]
fn a_failing_disk_is_told_and_written_to_again_when_it_is_well() {
    if !means::traceable("a_failing_disk_is_told_and_written_to_again_when_it_is_well") {
        return;
    }
    let world = World::new();
    let nap = world.helper("nap");
    let id = world.run(&[], &[&nap, "nap", world.mark()]);
    let fault = Fault::inject(&world, "error=EIO");
    world.ctl(&["cancel", &id]).ok();
    world.assert_no_worker_process();
    assert_eq!(world.status_of(&id), "exited");
    let said = world.ctl(&["run", "--no-wait", "--", "true"]);
    assert_eq!(said.code, 8, "{said:?}");
    assert!(said.stderr.contains("rror"), "{said:?}");
    fault.over();
    wait_until("the trouble is over", || {
        world.service()["degraded"].as_array().unwrap().is_empty()
    });
    assert!(
        fs::read_to_string(world.row_file(&id))
            .unwrap()
            .contains("exited")
    );
    world.run_to_end(&[], &["true"]);
    world.end();
}
