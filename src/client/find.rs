//! Which daemon to talk to: the order of section 13, from the command line and the environment
//! alone. `super::link` goes through the plan; nothing here connects.

use std::path::PathBuf;

use super::args::Global;
use super::exit::Failure;
use crate::places::{Private, System, private, runtime_root};

/// Socket of the system instance.
pub const SYSTEM_SOCKET: &str = "/run/musterd.sock";
/// Name of the user service's socket in `$XDG_RUNTIME_DIR`.
const USER_SOCKET: &str = "musterd.sock";

/// One place to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A socket on which a daemon serves peer to peer.
    Socket {
        /// Where.
        path: PathBuf,
        /// Whose it may be.
        whose: Whose,
    },
    /// The system bus.
    SystemBus,
    /// The session bus.
    SessionBus,
    /// A bus at an address.
    Bus(String),
    /// A daemon that is to be started.
    Start(Private),
}

/// Which uid may be at the other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Root, the caller, or the system's `musterd` user.
    Trusted,
    /// Root or the caller; the socket's directory must be private to the caller.
    Own,
    /// As [`Whose::Trusted`]; root, who named the socket himself, may also use another's.
    Named,
}

/// A place and what happens when nobody is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Where.
    pub place: Place,
    /// Go on with the next step if nobody is there; else it is an error.
    pub or_next: bool,
}

/// The places to look at, in order.
pub fn plan(global: &Global, system: &dyn System) -> Result<Vec<Step>, Failure> {
    if let Some(step) = explicit(global)? {
        return Ok(vec![step]);
    }
    let mut steps = Vec::new();
    let next = |place| Step {
        place,
        or_next: true,
    };
    // Directories given by hand mean that daemon and no other, also inside a worker: a test
    // run inside a worker must not meet the worker's own daemon.
    let by_hand =
        system.env("MUSTERD_STATE_DIR").is_some() || system.env("MUSTERD_RUNTIME_DIR").is_some();
    if !by_hand {
        if !global.user
            && let Some(path) = system.env("MUSTER_SOCKET")
        {
            return Ok(vec![Step {
                place: Place::Socket {
                    path: path.into(),
                    whose: Whose::Trusted,
                },
                or_next: false,
            }]);
        }
        if !global.user {
            steps.push(next(Place::Socket {
                path: SYSTEM_SOCKET.into(),
                whose: Whose::Trusted,
            }));
        }
        if let Some(dir) = runtime_root(system) {
            steps.push(next(Place::Socket {
                path: dir.join(USER_SOCKET),
                whose: Whose::Trusted,
            }));
        }
        if global.user {
            steps.push(next(Place::SessionBus));
        }
    }
    let private = private(system).map_err(Failure::from)?;
    steps.push(next(Place::Socket {
        path: private.socket(),
        whose: Whose::Own,
    }));
    steps.push(Step {
        place: Place::Start(private),
        or_next: false,
    });
    Ok(steps)
}

/// What a flag names. `--user` names several places and is not among them.
fn explicit(global: &Global) -> Result<Option<Step>, Failure> {
    let place = if let Some(path) = &global.socket {
        Place::Socket {
            path: path.clone(),
            whose: Whose::Named,
        }
    } else if let Some(address) = &global.address {
        Place::Bus(address.clone())
    } else if let Some(host) = &global.host {
        Place::Bus(host_address(host)?)
    } else if let Some(machine) = &global.machine {
        Place::Bus(machine_address(machine)?)
    } else if global.system {
        Place::SystemBus
    } else {
        return Ok(None);
    };
    Ok(Some(Step {
        place,
        or_next: false,
    }))
}

/// Bus address of another machine's system bus, as `systemctl -H` reaches it.
fn host_address(host: &str) -> Result<String, Failure> {
    if host.is_empty() || host.starts_with('-') {
        return Err(Failure::usage(format!(
            "-H {host:?}: is no host; write HOST or USER@HOST"
        )));
    }
    Ok(format!(
        "unixexec:path=ssh,argv1=-xT,argv2=--,argv3={},argv4=systemd-stdio-bridge",
        escape(host)
    ))
}

/// Bus address of a container's system bus.
fn machine_address(machine: &str) -> Result<String, Failure> {
    if machine.is_empty() {
        return Err(Failure::usage("-M: the container's name is empty"));
    }
    Ok(format!(
        "unixexec:path=systemd-stdio-bridge,argv1=--machine={}",
        escape(machine)
    ))
}

/// Escapes a value of a D-Bus address (D-Bus specification, "Server Addresses").
fn escape(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_/.\\*".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02x}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::ffi::OsString;
    use std::path::Path;

    #[derive(Default)]
    struct Fake {
        env: HashMap<&'static str, &'static str>,
        own: Vec<&'static str>,
    }

    impl System for Fake {
        fn env(&self, name: &str) -> Option<OsString> {
            self.env.get(name).map(OsString::from)
        }
        fn uid(&self) -> u32 {
            1000
        }
        fn passwd_home(&self) -> Option<PathBuf> {
            None
        }
        fn is_own_dir(&self, path: &Path) -> bool {
            self.own.iter().any(|p| Path::new(p) == path)
        }
    }

    fn fake(env: &[(&'static str, &'static str)]) -> Fake {
        Fake {
            env: env.iter().copied().collect(),
            own: Vec::new(),
        }
    }

    /// The plan in short words.
    fn words(global: &Global, system: &Fake) -> Vec<String> {
        plan(global, system)
            .unwrap()
            .into_iter()
            .map(|step| {
                let word = match step.place {
                    Place::Socket { path, whose } => format!("{whose:?} {}", path.display()),
                    Place::Start(p) => {
                        format!("start {} {}", p.state.display(), p.runtime.display())
                    }
                    Place::Bus(address) => address,
                    other => format!("{other:?}"),
                };
                if step.or_next { word } else { word + "!" }
            })
            .collect()
    }

    #[test]
    fn outside_a_worker_the_order_is_system_user_private_start() {
        let system = fake(&[
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
            ("HOME", "/home/anna"),
        ]);
        assert_eq!(
            words(&Global::default(), &system),
            [
                "Trusted /run/musterd.sock",
                "Trusted /run/user/1000/musterd.sock",
                "Own /run/user/1000/musterd/sock",
                "start /home/anna/.local/state/musterd /run/user/1000/musterd!",
            ]
        );
    }

    #[test]
    fn inside_a_worker_its_own_daemon_is_the_only_one() {
        let system = fake(&[("MUSTER_SOCKET", "/s"), ("HOME", "/h")]);
        assert_eq!(words(&Global::default(), &system), ["Trusted /s!"]);
    }

    #[test]
    fn without_a_runtime_directory_a_directory_of_ones_own_is_taken() {
        let mut system = fake(&[("HOME", "/h")]);
        assert_eq!(
            words(&Global::default(), &system)[1..],
            [
                "Own /tmp/musterd-1000/sock",
                "start /h/.local/state/musterd /tmp/musterd-1000!"
            ]
        );
        system.own.push("/run/user/1000");
        assert_eq!(
            words(&Global::default(), &system)[1],
            "Trusted /run/user/1000/musterd.sock"
        );
    }

    #[test]
    fn directories_given_by_hand_mean_that_daemon_alone() {
        let system = fake(&[
            ("MUSTERD_STATE_DIR", "/st"),
            ("MUSTERD_RUNTIME_DIR", "/rt"),
            ("MUSTER_SOCKET", "/outer"),
            ("XDG_RUNTIME_DIR", "/run/user/1000"),
        ]);
        assert_eq!(
            words(&Global::default(), &system),
            ["Own /rt/sock", "start /st /rt!"]
        );
        let system = fake(&[("MUSTERD_STATE_DIR", "/st")]);
        assert_eq!(
            words(&Global::default(), &system),
            ["Own /st/run/sock", "start /st /st/run!"]
        );
        let system = fake(&[("MUSTERD_STATE_DIR", "st")]);
        assert!(plan(&Global::default(), &system).is_err());
    }

    #[test]
    fn an_explicit_flag_is_the_only_place() {
        let system = fake(&[("MUSTER_SOCKET", "/s"), ("HOME", "/h")]);
        let with = |change: fn(&mut Global)| {
            let mut global = Global::default();
            change(&mut global);
            words(&global, &system)
        };
        assert_eq!(with(|g| g.socket = Some("/x".into())), ["Named /x!"]);
        assert_eq!(with(|g| g.system = true), ["SystemBus!"]);
        assert_eq!(
            with(|g| g.address = Some("unix:path=/b".into())),
            ["unix:path=/b!"]
        );
        assert_eq!(
            with(|g| g.host = Some("anna@far away".into())),
            [
                "unixexec:path=ssh,argv1=-xT,argv2=--,argv3=anna%40far%20away,argv4=systemd-stdio-bridge!"
            ]
        );
        assert_eq!(
            with(|g| g.machine = Some("box".into())),
            ["unixexec:path=systemd-stdio-bridge,argv1=--machine=box!"]
        );
        assert_eq!(
            with(|g| g.user = true),
            [
                "SessionBus",
                "Own /tmp/musterd-1000/sock",
                "start /h/.local/state/musterd /tmp/musterd-1000!"
            ]
        );
    }

    #[test]
    fn a_host_that_ssh_would_take_for_an_option_is_refused() {
        let global = Global {
            host: Some("-oProxyCommand=x".into()),
            ..Global::default()
        };
        assert!(plan(&global, &fake(&[])).is_err());
    }
}
