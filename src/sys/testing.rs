//! For the tests of sys: a thread that stands for the main thread, and a process of one's own
//! for what is about the whole process.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::fdslots::Slots;
use super::process::exits_within;
use super::spawn::{Forker, Image, SpawnError, Started, forker as new_pair, main_thread, search};
use super::{signals, wait};
use crate::worker::{Exit, Pid};

pub(super) const LONG: Duration = Duration::from_secs(30);
const OWN: &str = "MUSTERD_TEST_OWN";

pub(super) fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// One forking thread for all tests; it never ends, since its children would end with it.
pub(super) fn shared() -> &'static Forker {
    static FORKER: OnceLock<Forker> = OnceLock::new();
    FORKER.get_or_init(|| forker(Duration::from_secs(10)))
}

pub(super) fn forker(limit: Duration) -> Forker {
    let (handle, jobs) = new_pair(Slots::reserve().unwrap(), limit).unwrap();
    std::thread::spawn(move || {
        signals::block_all().unwrap();
        main_thread(jobs);
    });
    handle
}

pub(super) fn start_with(forker: &Forker, image: Image) -> Result<Started, SpawnError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime
        .enable_all()
        .build()
        .unwrap()
        .block_on(forker.start(image))
}

pub(super) fn start(image: Image) -> Started {
    start_with(shared(), image).unwrap()
}

pub(super) fn image(argv: &[&str]) -> Image {
    let argv: Vec<CString> = argv.iter().map(|word| c(word)).collect();
    let env = vec![c("PATH=/usr/bin:/bin")];
    let candidates = search(&argv[0], &env);
    Image {
        argv,
        env,
        candidates,
        pdeathsig: true,
        ..Image::default()
    }
}

pub(super) fn finish(started: &Started) -> Exit {
    assert!(exits_within(started.process.as_fd(), LONG), "does not end");
    wait::reap(started.process.as_fd()).unwrap().unwrap()
}

pub(super) fn kill(started: &Started) {
    started.process.signal(libc::SIGKILL).unwrap();
    finish(started);
}

/// Runs to its end and returns what it wrote to its standard output.
pub(super) fn output(mut image: Image) -> String {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    image.fds.push((write, 1));
    let started = start(image);
    let text = std::io::read_to_string(std::fs::File::from(read)).unwrap();
    assert_eq!(finish(&started), Exit::Code(0), "{text}");
    text
}

pub(super) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + LONG;
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says past the harness's capture that the test at hand does nothing here.
pub(super) fn not_run(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "{test}: not run, because {why}");
}

/// For a test about the whole process: `true` in a process that runs this test alone, where the
/// body is to be run; `false` in the ordinary one, after the other has passed.
pub(super) fn in_own_process(test: &str) -> bool {
    if std::env::var(OWN).is_ok_and(|own| own == test) {
        return true;
    }
    let status = own_process(test).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "{test} in a process of its own: {status}");
    false
}

/// The command that runs one test in a process of its own; `test` without the crate's name.
pub(super) fn own_process(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(OWN, test);
    command
}

/// Are we in the process of [`own_process`]?
pub(super) fn is_own_process(test: &str) -> bool {
    std::env::var(OWN).is_ok_and(|own| own == test)
}

/// A value of `/proc/PID/status`.
pub(super) fn status_line(pid: Pid, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap();
    line.trim_start_matches(':').trim().to_owned()
}
