//! `run --pty` on a real terminal: one that this test holds the other end of.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;

use musterd::sys::pty::pair;
use nix::sys::signal::Signal;
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::support::{Reaped, World, hear, proc, text, wait_for, wait_until};

/// A terminal with `musterctl` on it.
struct Terminal {
    master: File,
    client: Reaped,
    seen: String,
}

impl Terminal {
    /// `musterctl run --quiet --pty OPTIONS -- ARGV` as a terminal's leader.
    fn start(world: &World, options: &[&str], argv: &[&str]) -> Terminal {
        let (master, slave) = pair().unwrap();
        rustix::io::ioctl_fionbio(&master, true).unwrap();
        size(&master, 30, 100);
        let mut args = vec!["run", "--quiet", "--name=shown", "--pty"];
        args.extend(options);
        args.push("--");
        args.extend(argv);
        let ctl = world.command(&args);
        let mut command = std::process::Command::new("setsid");
        command.arg("--ctty").arg(ctl.get_program());
        command.args(ctl.get_args()).current_dir(world.home());
        command.env_clear();
        command.envs(ctl.get_envs().filter_map(|(k, v)| Some((k, v?))));
        command.env("TERM", "xterm");
        let copy = |slave: &OwnedFd| slave.try_clone().unwrap();
        command
            .stdin(copy(&slave))
            .stdout(copy(&slave))
            .stderr(slave);
        Terminal {
            master: master.into(),
            client: Reaped(command.spawn().unwrap()),
            seen: String::new(),
        }
    }

    fn look(&mut self) {
        let mut buffer = [0; 65536];
        while let Ok(n) = self.master.read(&mut buffer) {
            if n == 0 {
                break;
            }
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    }

    /// Waits for words on the screen, and forgets what came up to them.
    #[track_caller]
    fn expect(&mut self, words: &str) -> String {
        let begun = std::time::Instant::now();
        loop {
            self.look();
            if let Some(at) = self.seen.find(words) {
                let rest = self.seen.split_off(at + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(
                begun.elapsed() < crate::support::BOUND,
                "{words:?} never came: {:?}",
                self.seen
            );
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    fn keys(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.master).unwrap();
        !modes.local_modes.contains(LocalModes::ICANON)
    }

    /// The client's end: its code, 1000 and more for a signal.
    #[track_caller]
    fn end(&mut self) -> i32 {
        let status = wait_for("the client ends", || {
            self.look();
            self.client.0.try_wait().unwrap()
        });
        status
            .code()
            .unwrap_or_else(|| 1000 + status.signal().unwrap_or(0))
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.client.0.id()).unwrap()
    }
}

fn size(master: &impl std::os::fd::AsFd, rows: u16, columns: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(master, size).unwrap();
}

#[test]
fn it_is_typed_into_shown_and_ends_with_the_workers_own_status() {
    let world = World::new();
    let script = "tty; stty size; echo $TERM; read x; echo got:$x; tty < /dev/tty; exit 7";
    let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script, world.mark()]);
    terminal.expect("/dev/pts/");
    terminal.expect("30 100\r\n");
    terminal.expect("xterm\r\n");
    assert!(terminal.is_raw());
    terminal.keys("hello\r");
    terminal.expect("got:hello\r\n");
    terminal.expect("/dev/tty");
    assert_eq!(terminal.end(), 7);
    assert!(!terminal.is_raw(), "the terminal is as it was");
    world.end();
}

#[test]
fn all_that_was_written_is_shown_before_the_end() {
    let world = World::new();
    let mut terminal = Terminal::start(&world, &[], &["seq", "60000"]);
    assert_eq!(terminal.end(), 0);
    terminal.look();
    let lines: Vec<&str> = terminal.seen.split_whitespace().collect();
    assert_eq!((lines.len(), lines.last()), (60_000, Some(&"60000")));
    world.end();
}

#[test]
fn a_new_size_reaches_the_worker() {
    let world = World::new();
    let script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script, world.mark()]);
    terminal.expect("ready");
    size(&terminal.master, 33, 111);
    terminal.expect("33 111");
    terminal.keys("\x03");
    assert_eq!(terminal.end(), 128 + 2, "Ctrl-C is the worker's");
    let row = world.ended("shown");
    assert_eq!(row["exit"]["signal"].as_i64(), Some(2), "{row}");
    world.end();
}

#[test]
fn jobs_inside_are_suspended_and_resumed_by_the_keys() {
    let world = World::new();
    let mut terminal = Terminal::start(&world, &["-E", "PS1=% "], &["sh", "-i"]);
    terminal.expect("% ");
    terminal.keys("sleep 4711\r");
    let sleeps = |world: &World| {
        let all = world.processes();
        all.into_iter()
            .find(|p| p.cmdline.starts_with("sleep 4711"))
    };
    wait_until("it sleeps", || sleeps(&world).is_some());
    terminal.keys("\x1a");
    wait_until("it is stopped", || {
        sleeps(&world).is_some_and(|p| p.state == 'T')
    });
    terminal.keys("echo $((4700 + 12))\r");
    terminal.expect("4712");
    terminal.keys("fg\r");
    wait_until("it goes on", || {
        sleeps(&world).is_some_and(|p| p.state != 'T')
    });
    terminal.keys("\x03");
    wait_until("it is interrupted", || sleeps(&world).is_none());
    terminal.keys("exit 5\r");
    assert_eq!(terminal.end(), 5);
    world.end();
}

#[test]
fn the_client_can_be_suspended_and_gives_the_terminal_back_meanwhile() {
    let world = World::new();
    // A shell's read ends when a trap has run.
    let script = "trap 'echo size: $(stty size)' WINCH; echo ready
        while :; do read x || continue; [ $x = end ] && exit 6; echo got:$x; done";
    let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script, world.mark()]);
    terminal.expect("ready");
    wait_until("the terminal is raw", || terminal.is_raw());
    proc::signal(terminal.pid(), Signal::SIGTSTP);
    let pid = terminal.pid();
    let stopped = || proc::Process::read(pid).is_some_and(|p| p.state == 'T');
    wait_until("the client is stopped", stopped);
    assert!(!terminal.is_raw(), "a shell could be typed into");
    size(&terminal.master, 40, 90);
    proc::signal(terminal.pid(), Signal::SIGCONT);
    wait_until("it is raw again", || terminal.is_raw());
    terminal.keys("x\r");
    terminal.expect("size: 40 90");
    terminal.expect("got:x");
    terminal.keys("end\r");
    assert_eq!(terminal.end(), 6);
    world.end();
}

#[test]
fn when_the_client_goes_the_worker_is_hung_up() {
    for how in [Some(Signal::SIGKILL), Some(Signal::SIGTERM), None] {
        let world = World::new();
        let script = "echo ready; while :; do sleep 0.05; done";
        let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script, world.mark()]);
        terminal.expect("ready");
        wait_until("somebody is there", || {
            world.show("shown")["attended"].as_bool() == Some(true)
        });
        match how {
            Some(signal) => proc::signal(terminal.pid(), signal),
            // The terminal itself is closed.
            None => {
                let (master, _slave) = pair().unwrap();
                terminal.master = master.into();
            }
        }
        let row = world.ended("shown");
        assert_eq!(row["exit"]["signal"].as_i64(), Some(1), "{how:?}: {row}");
        assert_eq!(text(&row["outcome"]), "cancelled", "{how:?}: {row}");
        assert_eq!(row["attended"].as_bool(), Some(false));
        terminal.end();
        world.assert_no_worker_process();
        world.end();
    }
}

#[test]
fn the_keys_hang_up_and_a_worker_that_ignores_it_stays() {
    let world = World::new();
    let script = "trap '' HUP; echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script, world.mark()]);
    terminal.expect("ready");
    terminal.keys("\x1d\x1d\x1d");
    assert_eq!(terminal.end(), 1);
    assert!(!terminal.is_raw());
    assert!(terminal.seen.contains("hung up"), "{}", terminal.seen);
    wait_until("nobody is there", || {
        world.show("shown")["attended"].as_bool() == Some(false)
    });
    assert_eq!(world.status_of("shown"), "live");
    world.ctl(&["cancel", "--now", "shown"]).ok();
    world.end();
}

#[test]
fn a_cancel_from_elsewhere_and_a_reload_are_seen_by_the_client() {
    let world = World::new();
    let script = "echo ready; while :; do sleep 0.05; done";
    let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script, world.mark()]);
    terminal.expect("ready");
    world.ctl(&["reload"]).ok();
    wait_until("still somebody is there", || {
        world.show("shown")["attended"].as_bool() == Some(true)
    });
    assert!(terminal.client.0.try_wait().unwrap().is_none());
    world.ctl(&["cancel", "shown"]).ok();
    assert_eq!(terminal.end(), 128 + 15);
    assert!(!terminal.is_raw());
    world.end();
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let world = World::new();
    let said = hear(world.command(&["run", "--pty", "true"]));
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.stderr.contains("--pipe"), "{said:?}");
    assert!(world.daemons().is_empty());
    world.end();
}

#[test]
fn a_full_screen_program_that_is_killed_or_suspended_leaves_no_mode_behind() {
    let world = World::new();
    let script = r"printf '\033[?1049h\033[?1000h\033[?25lup'; exec sleep 1000";
    let mut terminal = Terminal::start(&world, &[], &["sh", "-c", script]);
    terminal.expect("up");
    let undone = "\x1b[?1000l\x1b[?1049l\x1b[?25h";
    proc::signal(terminal.pid(), Signal::SIGTSTP);
    terminal.expect(undone);
    proc::signal(terminal.pid(), Signal::SIGCONT);
    terminal.expect("\x1b[?1049h\x1b[?1000h\x1b[?25l");
    let id = text(&world.show("shown")["id"]);
    world.ctl(&["kill", "--signal=KILL", &id]).ok();
    terminal.expect(undone);
    assert_eq!(terminal.end(), 137);
    world.end();
}
