//! Real children, started by a dedicated thread that stands for the main thread.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::Duration;

use super::{Forker, Image, SpawnError, Stage, Started, forker, main_thread, search};
use crate::sys::fdslots::Slots;
use crate::sys::process::exits_within;
use crate::sys::{signals, wait};
use crate::worker::Exit;

const LONG: Duration = Duration::from_secs(20);

fn c(text: &str) -> CString {
    CString::new(text).unwrap()
}

/// One thread for all tests; it never ends, since its children would end with it.
fn shared() -> &'static Forker {
    static FORKER: OnceLock<Forker> = OnceLock::new();
    FORKER.get_or_init(|| new_forker(Duration::from_secs(10)))
}

fn new_forker(limit: Duration) -> Forker {
    let (handle, jobs) = forker(Slots::reserve().unwrap(), limit).unwrap();
    std::thread::spawn(move || {
        signals::block_all().unwrap();
        main_thread(jobs);
    });
    handle
}

fn start_with(forker: &Forker, image: Image) -> Result<Started, SpawnError> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    runtime.block_on(forker.start(image))
}

fn image(argv: &[&str]) -> Image {
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

fn finish(started: &Started) -> Exit {
    assert!(exits_within(started.process.as_fd(), LONG));
    wait::reap(started.process.as_fd()).unwrap().unwrap()
}

fn run(argv: &[&str]) -> Exit {
    finish(&start_with(shared(), image(argv)).unwrap())
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    assert_eq!(run(&["true"]), Exit::Code(0));
    for code in [1, 7, 127, 128, 137, 255] {
        assert_eq!(
            run(&["sh", "-c", &format!("exit {code}")]),
            Exit::Code(code)
        );
    }
    for signal in [1, 2, 3, 6, 9, 10, 13, 14, 15, 34, 64] {
        assert_eq!(
            run(&["sh", "-c", &format!("kill -{signal} $$")]),
            Exit::Signal(signal)
        );
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let error = start_with(shared(), image(&["/nonexistent/agent"])).unwrap_err();
    assert_eq!((error.stage, error.errno), (Stage::Exec, libc::ENOENT));
    assert_eq!(error.path, "/nonexistent/agent");
}

/// `cargo test --release --lib spawning_is -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
#[allow(unsafe_code)]
fn spawning_is_as_fast_as_posix_spawn() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let forker = shared();
    let rounds = 500;
    for _ in 0..5 {
        let start = std::time::Instant::now();
        for _ in 0..rounds {
            let started = runtime
                .block_on(forker.start(image(&["/bin/true"])))
                .unwrap();
            finish(&started);
        }
        let ours = start.elapsed() / rounds;
        let start = std::time::Instant::now();
        for _ in 0..rounds {
            let argv = [c"/bin/true".as_ptr().cast_mut(), std::ptr::null_mut()];
            let env = [std::ptr::null_mut()];
            let mut pid = 0;
            // SAFETY: all pointers are to what lives in this frame.
            unsafe {
                let none = std::ptr::null();
                let path = c"/bin/true".as_ptr();
                libc::posix_spawn(
                    &raw mut pid,
                    path,
                    none,
                    none.cast(),
                    argv.as_ptr(),
                    env.as_ptr(),
                );
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
        println!("ours {ours:?}, posix_spawn {:?}", start.elapsed() / rounds);
    }
}
