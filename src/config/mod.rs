//! Configuration in layers: every key with its default and its reason, read under a root.
//! Specification section 14.

mod load;
#[cfg(test)]
mod tests;
mod units;
mod value;

use std::time::Duration;

pub use load::{ConfigErrors, Fault, Paths};
pub use units::{Size, parse_duration, show_duration, unit_nanos};
pub use value::{Cgroup, Ignored, LogLevel, OutputTarget, Signal, Umask};

use crate::worker::LeftoversPolicy;
use value::{Value, any, at_most, between, positive};

/// What is known of one key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name within its section.
    pub name: &'static str,
    /// One line of why.
    pub why: &'static str,
    /// What may stand there, and its unit.
    pub shape: &'static str,
}

/// What every section can do; made by the table below.
pub(crate) trait Section {
    const KEYS: &'static [Key];
    /// Sets a key from a value; `None` for an unknown key.
    fn set(&mut self, key: &str, value: &toml::de::DeValue<'_>) -> Option<Result<(), String>>;
    /// A key's value as TOML; `None` for an unknown key.
    fn show(&self, key: &str) -> Option<String>;
}

macro_rules! sections {
    ($(
        $(#[doc = $about:literal])*
        $section:ident: $Type:ident {
            $( #[doc = $why:literal] $key:ident: $ty:ty = $default:expr, $check:expr; )*
        }
    )*) => {
        /// The whole configuration.
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct Config {
            $( $(#[doc = $about])* pub $section: $Type, )*
        }

        $(
            $(#[doc = $about])*
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub struct $Type {
                $( #[doc = $why] pub $key: $ty, )*
            }

            impl Default for $Type {
                fn default() -> Self {
                    Self { $( $key: $default, )* }
                }
            }

            impl Section for $Type {
                const KEYS: &'static [Key] = &[
                    $( Key {
                        name: stringify!($key),
                        why: $why,
                        shape: <$ty as Value>::SHAPE,
                    }, )*
                ];

                fn set(
                    &mut self,
                    key: &str,
                    value: &toml::de::DeValue<'_>,
                ) -> Option<Result<(), String>> {
                    match key {
                        $( stringify!($key) => Some(
                            <$ty as Value>::read(value).and_then(|v| {
                                let check: fn(&$ty) -> Result<(), String> = |v| $check(v);
                                check(&v)?;
                                self.$key = v;
                                Ok(())
                            }),
                        ), )*
                        _ => None,
                    }
                }

                fn show(&self, key: &str) -> Option<String> {
                    match key {
                        $( stringify!($key) => Some(self.$key.show()), )*
                        _ => None,
                    }
                }
            }
        )*

        impl Config {
            /// Names of all sections, in the order of the shipped file.
            pub const SECTIONS: &'static [&'static str] = &[$( stringify!($section), )*];

            /// The keys of a section, `None` for an unknown one.
            pub fn keys(section: &str) -> Option<&'static [Key]> {
                match section {
                    $( stringify!($section) => Some(<$Type as Section>::KEYS), )*
                    _ => None,
                }
            }

            /// One line about a section; empty for an unknown one.
            pub fn about(section: &str) -> &'static str {
                match section {
                    $( stringify!($section) => concat!($($about),*), )*
                    _ => "",
                }
            }

            fn section(&mut self, name: &str) -> Option<&mut dyn DynSection> {
                match name {
                    $( stringify!($section) => Some(&mut self.$section), )*
                    _ => None,
                }
            }

            /// A key's value as TOML; `None` for an unknown one.
            pub fn show(&self, section: &str, key: &str) -> Option<String> {
                match section {
                    $( stringify!($section) => Section::show(&self.$section, key), )*
                    _ => None,
                }
            }
        }
    };
}

/// [`Section`] behind a reference.
trait DynSection {
    fn put(&mut self, key: &str, value: &toml::de::DeValue<'_>) -> Option<Result<(), String>>;
}

impl<S: Section> DynSection for S {
    fn put(&mut self, key: &str, value: &toml::de::DeValue<'_>) -> Option<Result<(), String>> {
        self.set(key, value)
    }
}

const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}
const DAY: u64 = 24 * 3600;
const MIB: u64 = 1024 * 1024;
/// The greatest length of time taken: ten years, so that no sum of two can overflow a clock.
const LONG: Duration = secs(3650 * DAY);
const SHORT: Duration = Duration::from_millis(1);

sections! {
    /// The collector: when a dead row leaves the roll.
    gc: Gc {
        /// How long a dead row stays visible. Strictly older rows are collected.
        grace: Duration = secs(DAY), at_most(LONG);
        /// Do files that git ignores keep a worktree's row: "ignore" or "dirty".
        ignored: Ignored = Ignored::Ignore, any;
        /// One look into a worktree ends after this; the row is then kept as unprobed.
        probe_timeout: Duration = secs(10), between(SHORT, secs(3600));
        /// Worktrees looked into at the same time.
        probe_parallel: u32 = 2, between(1, 256);
        /// One sweep ends after this; the rows not judged come first in the next one.
        sweep_budget: Duration = secs(300), between(SHORT, LONG);
        /// The daemon sweeps by itself this often; "0" leaves it to the timer and to hand.
        interval: Duration = secs(3600), at_most(LONG);
        /// A reaped row can be restored for so long.
        reaped_retention: Duration = secs(7 * DAY), at_most(LONG);
    }
    /// How workers are ended.
    ladder: Ladder {
        /// From the cancel frame to the stop signal.
        grace: Duration = secs(5), at_most(LONG);
        /// From the stop signal to SIGKILL.
        kill_grace: Duration = secs(2), at_most(LONG);
        /// The signal that asks a program to end.
        stop_signal: Signal = Signal(libc::SIGTERM), any;
        /// A worker that outlives SIGKILL for so long is called unkillable.
        unkillable_after: Duration = secs(5), between(SHORT, LONG);
        /// The kill of an unkillable worker is repeated at least this often.
        unkillable_retry: Duration = secs(60), between(SHORT, LONG);
        /// A stop hook is killed after this.
        stop_hook_timeout: Duration = secs(10), between(SHORT, LONG);
        /// A drain kills what is left after this. Keep it below the unit's TimeoutStopSec.
        drain_timeout: Duration = secs(60), between(SHORT, LONG);
    }
    /// Detectors of workers that hang. A worker may ask for other values.
    liveness: Liveness {
        /// Nothing substantial from a worker for so long: it is busy or stuck.
        progress: Duration = secs(120), between(SHORT, LONG);
        /// No answer to a ping for so long: it is stuck, if it promised to answer.
        pong: Duration = secs(10), between(SHORT, LONG);
        /// Longer than what the worker was told, so that it can end by itself first.
        deadline_slack: Duration = secs(60), at_most(LONG);
        /// Hard deadline of a worker that asks for none; "0" for none.
        deadline: Duration = Duration::ZERO, at_most(LONG);
        /// A settled worker that is quiet for so long is ended; "0" for never.
        idle: Duration = Duration::ZERO, at_most(LONG);
    }
    /// What every worker gets.
    workers: Workers {
        /// What the leader left running is ended ("kill"), or the worker lives on ("wait").
        leftovers: LeftoversPolicy = LeftoversPolicy::Kill, any;
        /// TMPDIR and TMUX_TMPDIR in the worker's runtime directory, removed with it.
        private_tmp: bool = false, any;
        /// Where output goes: "journal", "file", or "auto" for the journal where there is one.
        output: OutputTarget = OutputTarget::Auto, any;
        /// journald takes 4,095 streams and breaks later ones; past this, output goes to files.
        journal_streams: u32 = 4000, at_most(4095);
        /// An output file is kept to about this size; the oldest part goes.
        output_max: Size = Size(64 * MIB), between(Size(64 * 1024), Size(1 << 40));
        /// 0 is the kernel's own judgement; higher is killed first.
        oom_score_adj: i32 = 0, between(-1000, 1000);
        /// File mode creation mask.
        umask: Umask = Umask(0o022), any;
        /// A child that hangs before exec (a dead mount) is killed after this.
        spawn_timeout: Duration = secs(10), between(SHORT, secs(3600));
    }
    /// Who is turned away, so that nobody can fill the machine.
    limits: LimitsConfig {
        /// Live workers of all owners.
        max_workers: u32 = 10_000, positive;
        /// Live workers of one owner.
        max_workers_per_owner: u32 = 5_000, positive;
        /// Rows of one owner, dead ones too.
        max_rows_per_owner: u32 = 100_000, positive;
        /// Workers started by workers started by workers.
        max_depth: u32 = 8, at_most(1_000);
        /// Message hops behind a turn.
        max_message_depth: u32 = 32, at_most(1_000_000);
        /// Spawns one worker may ask for at once.
        spawn_burst: u32 = 8, positive;
        /// Spawns a second one worker may go on asking for.
        spawn_per_second: u32 = 2, positive;
        /// A longer control frame is skipped and counted.
        max_frame: Size = Size(MIB), between(Size(4096), Size(64 * MIB));
        /// Percent of time stalled on memory (PSI some avg10) that closes admission; 100 for never.
        memory_pressure: u32 = 60, between(1, 100);
        /// The same for CPU. Busy machines are normal, so only low priorities feel it early.
        cpu_pressure: u32 = 95, between(1, 100);
        /// Peer connections of one owner.
        max_connections_per_owner: u32 = 256, positive;
        /// Calls a second of one owner.
        requests_per_second: u32 = 1_000, positive;
        /// Calls of one owner at once.
        requests_burst: u32 = 4_000, positive;
    }
    /// Workers that are started again.
    restart: Restart {
        /// First wait; it doubles each time.
        backoff_min: Duration = secs(1), between(SHORT, LONG);
        /// Longest wait.
        backoff_max: Duration = secs(300), between(SHORT, LONG);
        /// After so long in health the waits begin anew.
        reset_after: Duration = secs(300), between(SHORT, LONG);
        /// More restarts than this within the window: permanent-dead.
        max: u32 = 5, any;
        /// The window.
        window: Duration = secs(600), between(SHORT, LONG);
    }
    /// What holds a worker's processes together.
    containment: Containment {
        /// "auto" finds a delegated cgroup2; "none" does without; a path names the subtree.
        cgroup: Cgroup = Cgroup::Auto, any;
    }
    /// The daemon itself.
    service: Service {
        /// An idle daemon ends after this and comes back on the first call; "0" for never.
        idle_exit: Duration = secs(300), at_most(LONG);
    }
    /// The daemon's own log.
    log: LogConfig {
        /// "error", "warn", "info", "debug" or "trace".
        level: LogLevel = LogLevel::Info, any;
    }
}
