//! `tree`: workers below who asked for them, each with the processes of its leaf. The daemon
//! tells the workers; the processes are read here, so only on the daemon's own machine.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::report::{self, Users, count, dot, state};
use crate::client::args::TreeArgs;
use crate::client::exit::{Asking, Code, Failure};
use crate::client::link::{Daemon, failure};
use crate::client::output::Output;
use crate::client::output::text::{command_line, escape};
use crate::client::view::Worker;
use crate::supervisor::handle::ListFilter;
use crate::sys::cgroup::{self, Leaf};
use crate::worker::Pid;

/// A process of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    pid: i32,
    argv: Vec<String>,
}

/// Workers by parent, and the processes of each.
#[derive(Debug, Default)]
struct Forest {
    workers: BTreeMap<String, Worker>,
    below: BTreeMap<String, Vec<String>>,
    roots: Vec<String>,
    processes: BTreeMap<String, Vec<Process>>,
}

/// Runs the verb.
pub async fn run(daemon: &Daemon, args: &TreeArgs, out: &mut Output) -> Result<Code, Failure> {
    let mut workers = listed(daemon, args.all).await?;
    if has_lost_parents(&workers) {
        // The parent of one that was spared has ended; it stands there for what is below it.
        workers = with_ancestors(workers, listed(daemon, true).await?);
    }
    let mut forest = Forest::of(workers);
    if !daemon.is_remote() {
        for worker in forest.workers.values() {
            forest
                .processes
                .insert(worker.id.clone(), processes(worker));
        }
    }
    if out.json.is_some() {
        let all: Vec<Value> = forest.roots.iter().map(|id| forest.json(id)).collect();
        out.json(&all);
        return Ok(Code::DONE);
    }
    let users = Users::default();
    for root in &forest.roots {
        forest.print(root, "", "", &users, out);
    }
    if out.style.legend {
        let n = forest.workers.len() as u64;
        let blank = if n > 0 { "\n" } else { "" };
        out.line(format!("{blank}{}.", count(n, "worker", "workers")));
    }
    Ok(Code::DONE)
}

async fn listed(daemon: &Daemon, all: bool) -> Result<Vec<Worker>, Failure> {
    let filter = ListFilter {
        all,
        ..ListFilter::default()
    };
    let rows = daemon
        .call(async |client| client.list(filter.clone()).await)
        .await
        .map_err(|e| failure(e, Asking::Action))?;
    Ok(rows.iter().map(report::of_listed).collect())
}

fn has_lost_parents(workers: &[Worker]) -> bool {
    let known: BTreeSet<&str> = workers.iter().map(|w| w.id.as_str()).collect();
    workers
        .iter()
        .filter_map(|worker| worker.parent.as_deref())
        .any(|parent| !known.contains(parent))
}

/// What is shown, and of the rest those that it is below of.
fn with_ancestors(shown: Vec<Worker>, all: Vec<Worker>) -> Vec<Worker> {
    let mut rest: BTreeMap<String, Worker> = all.into_iter().map(|w| (w.id.clone(), w)).collect();
    let mut found = Vec::new();
    let mut open = shown;
    for worker in &open {
        rest.remove(&worker.id);
    }
    while let Some(worker) = open.pop() {
        if let Some(parent) = worker.parent.as_ref().and_then(|id| rest.remove(id)) {
            open.push(parent);
        }
        found.push(worker);
    }
    found.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    found
}

impl Forest {
    fn of(workers: Vec<Worker>) -> Self {
        let known: BTreeSet<String> = workers.iter().map(|w| w.id.clone()).collect();
        let mut forest = Forest::default();
        for worker in workers {
            // A parent that is not shown, or that has left the roll, leads nowhere.
            match worker.parent.as_ref().filter(|p| known.contains(*p)) {
                Some(parent) => forest
                    .below
                    .entry(parent.clone())
                    .or_default()
                    .push(worker.id.clone()),
                None => forest.roots.push(worker.id.clone()),
            }
            forest.workers.insert(worker.id.clone(), worker);
        }
        forest
    }

    fn children(&self, id: &str) -> &[String] {
        self.below.get(id).map_or(&[], Vec::as_slice)
    }

    fn processes(&self, id: &str) -> &[Process] {
        self.processes.get(id).map_or(&[], Vec::as_slice)
    }

    fn json(&self, id: &str) -> Value {
        let worker = self.workers.get(id);
        let processes: Vec<Value> = self
            .processes(id)
            .iter()
            .map(|p| json!({"pid": p.pid, "argv": p.argv}))
            .collect();
        let children: Vec<Value> = self.children(id).iter().map(|c| self.json(c)).collect();
        json!({
            "id": id,
            "name": worker.map(|w| &w.name),
            "kind": worker.map(|w| &w.kind),
            "status": worker.map(|w| &w.status),
            "uid": worker.map(|w| w.owner.uid),
            "pid": worker.and_then(|w| w.pid),
            "processes": processes,
            "children": children,
        })
    }

    fn print(&self, id: &str, head: &str, body: &str, users: &Users, out: &mut Output) {
        let Some(worker) = self.workers.get(id) else {
            return;
        };
        let (mark, paint) = dot(worker);
        let mark = out.style.paint(paint, mark);
        let user = users.name(worker.owner.uid);
        let (title, state) = (escape(&worker.title()), state(worker));
        out.line(format!("{head}{mark} {title} {state}, {user}"));
        let (processes, children) = (self.processes(id), self.children(id));
        let total = processes.len() + children.len();
        for (n, process) in processes.iter().enumerate() {
            let branch = if n + 1 == total { "└─" } else { "├─" };
            let command = command_line(&process.argv);
            out.line(format!("{body}{branch}{} {command}", process.pid));
        }
        for (n, child) in children.iter().enumerate() {
            let last = processes.len() + n + 1 == total;
            let (branch, space) = if last {
                ("└─", "  ")
            } else {
                ("├─", "│ ")
            };
            let (head, body) = (format!("{body}{branch}"), format!("{body}{space}"));
            self.print(child, &head, &body, users, out);
        }
    }
}

/// The processes of a worker's leaf; without a leaf its leader.
fn processes(worker: &Worker) -> Vec<Process> {
    let Some(leader) = worker.pid.and_then(|pid| Pid::new(pid.into()).ok()) else {
        return Vec::new();
    };
    let mut pids = leaf_of(leader, &worker.id).unwrap_or_else(|| vec![leader]);
    pids.sort_unstable_by_key(|pid| (*pid != leader, pid.get()));
    pids.into_iter()
        .map(|pid| Process {
            pid: pid.get(),
            argv: argv(pid),
        })
        .collect()
}

/// The leaf's name says that the pid is still the worker's.
fn leaf_of(leader: Pid, id: &str) -> Option<Vec<Pid>> {
    let path = cgroup::of_process(leader).ok()?;
    let own = format!("w-{id}");
    let leaf = path
        .ancestors()
        .find(|part| part.file_name().is_some_and(|name| name == own.as_str()))?;
    let leaf = Leaf::open(cgroup::absolute(leaf).ok()?).ok()?;
    leaf.pids().ok().filter(|pids| !pids.is_empty())
}

/// A process's command line; its name in brackets where it has none.
fn argv(pid: Pid) -> Vec<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<String> = bytes
        .split(|b| *b == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    match words.split_last() {
        Some((_, words)) if !words.is_empty() => words.to_vec(),
        _ => {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm"));
            vec![format!("[{}]", comm.unwrap_or_default().trim_end())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::args::Global;

    fn worker(id: &str, parent: Option<&str>) -> Worker {
        Worker {
            id: id.to_owned(),
            status: "live".to_owned(),
            parent: parent.map(str::to_owned),
            owner: crate::client::view::Owner {
                uid: 4_000_000_000,
                gid: 0,
            },
            ..Worker::default()
        }
    }

    #[test]
    fn an_ended_ancestor_stands_there_for_what_is_below_it() {
        let all = ["a", "b", "c", "d"].map(|id| match id {
            "b" => worker(id, Some("a")),
            "c" => worker(id, Some("b")),
            id => worker(id, None),
        });
        let shown = vec![worker("a", None), worker("c", Some("b"))];
        assert!(has_lost_parents(&shown));
        let found = with_ancestors(shown, all.to_vec());
        let ids: Vec<&str> = found.iter().map(|w| w.id.as_str()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(Forest::of(found).roots, ["a"]);
    }

    #[test]
    fn a_worker_stands_below_its_parent_and_after_the_parents_processes() {
        let mut forest = Forest::of(vec![
            worker("a", None),
            worker("b", Some("a")),
            worker("c", Some("b")),
            worker("d", Some("a")),
            worker("e", Some("gone")),
        ]);
        let process = Process {
            pid: 7,
            argv: vec!["sh".to_owned(), "x\u{1b}".to_owned()],
        };
        forest.processes.insert("a".to_owned(), vec![process]);
        let mut out = Output::new(&Global::default());
        for root in &forest.roots {
            forest.print(root, "", "", &Users::default(), &mut out);
        }
        assert_eq!(
            out.into_text(),
            concat!(
                "● a live, 4000000000\n",
                "├─7 sh \"x\\x1b\"\n",
                "├─● b live, 4000000000\n",
                "│ └─● c live, 4000000000\n",
                "└─● d live, 4000000000\n",
                "● e live, 4000000000\n",
            )
        );
        assert_eq!(forest.json("a")["children"][0]["children"][0]["id"], "c");
    }
}
