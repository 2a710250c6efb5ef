//! What the daemon has told somebody: it must be true for the next one.

use std::collections::BTreeMap;
use std::fs;

use crate::killer::Point;
use crate::support::{Said, World, text};

/// What is known of one worker. Of what was under way when the daemon died, nothing is.
#[derive(Debug, Clone, Default)]
struct Fact {
    reason: Option<String>,
    held: Option<bool>,
    on_the_roll: Option<bool>,
    outcome: Option<&'static str>,
}

/// Workers by name, with what was told of each.
#[derive(Debug, Default)]
pub struct Told {
    ids: BTreeMap<&'static str, String>,
    facts: BTreeMap<&'static str, Fact>,
}

impl Told {
    /// Does everything that writes a row. `false`: the daemon died on the way.
    pub fn work(&mut self, world: &World) -> bool {
        self.steps(world).is_some()
    }

    fn steps(&mut self, world: &World) -> Option<()> {
        let nap = world.helper("nap");
        let napping = [nap.as_str(), "nap", world.mark()];
        self.start(world, "runs", &napping)?;
        self.start(world, "ends", &["true"])?;
        ask(world, &["wait", "ends"])?;
        self.start(world, "cancelled", &napping)?;
        let reason = ["--reason", "no more", "cancelled"];
        ask(world, &[&["cancel"][..], &reason].concat())?;
        self.fact("cancelled").outcome = Some("cancelled");
        self.fact("cancelled").reason = Some("no more".to_owned());
        for (verb, held) in [("hold", true), ("release", false), ("hold", true)] {
            self.fact("cancelled").held = None;
            ask(world, &[verb, "cancelled"])?;
            self.fact("cancelled").held = Some(held);
        }
        for (verb, there) in [("forget", false), ("restore", true), ("forget", false)] {
            self.fact("ends").on_the_roll = None;
            let id = self.ids["ends"].clone();
            ask(world, &[verb, &id])?;
            self.fact("ends").on_the_roll = Some(there);
        }
        self.start(world, "swept", &["true"])?;
        ask(world, &["wait", "swept"])?;
        self.fact("swept").on_the_roll = None;
        // Once to stamp, once to reap.
        for _ in 0..2 {
            ask(world, &["reap", "--grace", "0"])?;
        }
        self.fact("swept").on_the_roll = Some(false);
        Some(())
    }

    fn start(&mut self, world: &World, name: &'static str, argv: &[&str]) -> Option<()> {
        let args = [&["run", "-q", "--no-wait", "--name", name, "--"], argv].concat();
        let said = ask(world, &args)?;
        self.ids.insert(name, said.stdout.trim().to_owned());
        self.fact(name).on_the_roll = Some(true);
        Some(())
    }

    fn fact(&mut self, name: &'static str) -> &mut Fact {
        self.facts.entry(name).or_default()
    }

    /// Asks the daemon that is there now.
    pub fn check(&self, world: &World, point: &Point) {
        let rows = world.rows();
        for (name, fact) in &self.facts {
            let Some(id) = self.ids.get(name) else {
                continue;
            };
            let listed = rows.iter().any(|row| text(&row["id"]) == *id);
            match fact.on_the_roll {
                Some(there) => assert_eq!(listed, there, "{point}: {name}: {self:?}"),
                None if listed => {}
                None => continue,
            }
            if !listed {
                let kept = world.state().join("reaped").join(format!("{id}.toml"));
                assert!(
                    fs::exists(&kept).unwrap(),
                    "{point}: {name} can be restored"
                );
                continue;
            }
            let row = world.show(id);
            if let Some(held) = fact.held {
                assert_eq!(row["held"], held, "{point}: {row}");
            }
            if let Some(outcome) = fact.outcome {
                assert_eq!(text(&row["outcome"]), outcome, "{point}: {row}");
            }
            if let Some(reason) = &fact.reason {
                assert_eq!(text(&row["cancelled"]["reason"]), *reason, "{point}: {row}");
            }
        }
        // What was started and not told of is over too, and says so.
        if point.kills() {
            for row in &rows {
                assert_eq!(text(&row["status"]), "exited", "{point}: {row}");
            }
        }
    }
}

/// Asks the daemon that is there, and starts none. `None`: it has gone.
fn ask(world: &World, args: &[&str]) -> Option<Said> {
    let socket = world.runtime().join("sock");
    let socket = format!("--socket={}", socket.display());
    let said = world.ctl(&[&[socket.as_str()][..], args].concat());
    // The exit code of a worker is passed on by `wait`.
    let gone = said.code == 7 || (said.code != 0 && world.daemon_pid().is_none());
    assert!(gone || said.code == 0, "{args:?}: {said:?}");
    (!gone).then_some(said)
}
