//! Repositories and programs that mean harm, or are broken.

use std::time::Duration;

use musterd::gc::worktree::TreeState;

use crate::bench::{Bench, Launcher, ME, block_on, probe, probe_with, prober};

#[test]
fn nothing_that_a_repository_names_is_executed() {
    let bench = Bench::new();
    bench.write("main/.gitattributes", "* filter=x diff=x\na filter=y=z.w\n");
    bench.git(&bench.path("main"), &["add", "."]);
    bench.git(&bench.path("main"), &["commit", "-qm", "attributes"]);
    let w = bench.linked("w");
    let pwn = bench.path("pwn");
    let touch = format!("touch {}", pwn.display());
    let script = bench.script("hooks/post-index-change", &touch);
    let script = script.to_str().unwrap();
    std::fs::create_dir_all(bench.path("main/.git/hooks")).unwrap();
    for hook in ["post-index-change", "fsmonitor-watchman", "post-checkout"] {
        std::fs::copy(script, bench.path("main/.git/hooks").join(hook)).unwrap();
    }
    bench.write(
        "included",
        &format!("[filter \"x\"]\n clean = {touch}\n required\n"),
    );
    for (key, value) in [
        ("core.fsmonitor", script),
        ("core.hooksPath", bench.path("hooks").to_str().unwrap()),
        ("core.pager", &touch),
        ("pager.status", &touch),
        ("core.editor", &touch),
        ("core.sshCommand", &touch),
        ("core.gitProxy", script),
        ("core.alternateRefsCommand", script),
        ("core.askPass", script),
        ("alias.status", &format!("!{touch}")),
        ("alias.config", &format!("!{touch}")),
        ("diff.external", script),
        ("diff.x.textconv", script),
        ("diff.x.command", script),
        ("filter.y=z.w.process", &touch),
        ("filter.y=z.w.required", "true"),
        ("gpg.program", script),
        ("credential.helper", &format!("!{touch}")),
        ("include.path", bench.path("included").to_str().unwrap()),
    ] {
        bench.git(&bench.path("main"), &["config", key, value]);
    }
    // Stat data that does not match makes git compare the content, through the filters.
    for file in ["a", "dir/b"] {
        let text = std::fs::read(w.join(file)).unwrap();
        std::fs::remove_file(w.join(file)).unwrap();
        std::fs::write(w.join(file), text).unwrap();
    }
    let state = probe(&w);
    assert!(!pwn.exists(), "a program of the repository was run");
    assert_eq!(state, TreeState::Clean);
    // The trap is real: a plain status falls into it.
    bench.try_git(&w, &["-c", "alias.status=", "status"]);
    assert!(pwn.exists());
}

#[test]
fn filters_of_a_submodule_are_not_executed() {
    let bench = Bench::new();
    let outer = bench.path("outer");
    std::fs::create_dir(&outer).unwrap();
    bench.git(&outer, &["init", "-q"]);
    bench.git(&outer, &["submodule", "add", "-q", "../main", "sub"]);
    bench.git(&outer, &["commit", "-qm", "sub"]);
    let pwn = bench.path("pwn");
    let sub = bench.path("outer/sub");
    bench.write("outer/.git/modules/sub/info/attributes", "* filter=x\n");
    let touch = format!("touch {}", pwn.display());
    bench.git(&sub, &["config", "filter.x.clean", &touch]);
    bench.git(&sub, &["config", "core.fsmonitor", &touch]);
    std::fs::remove_file(sub.join("a")).unwrap();
    std::fs::write(sub.join("a"), "one\n").unwrap();
    assert_eq!(probe(&outer), TreeState::Clean);
    assert!(!pwn.exists());
}

#[test]
fn a_tree_with_filters_and_fresh_stat_data_is_clean() {
    let bench = Bench::new();
    let main = bench.path("main");
    bench.git(&main, &["config", "filter.up.clean", "tr a-z A-Z"]);
    bench.git(&main, &["config", "filter.up.smudge", "tr A-Z a-z"]);
    bench.git(&main, &["config", "filter.up.required", "true"]);
    bench.write("main/.gitattributes", "*.up filter=up\n");
    bench.write("main/x.up", "text\n");
    bench.git(&main, &["add", "."]);
    bench.git(&main, &["commit", "-qm", "filter"]);
    // Once the files are older than the index, git trusts their stat data.
    let past = std::time::SystemTime::now() - Duration::from_secs(100);
    for file in ["x.up", ".gitattributes"] {
        let file = std::fs::File::options().append(true).open(main.join(file));
        file.unwrap().set_modified(past).unwrap();
    }
    bench.git(&main, &["update-index", "-q", "--really-refresh"]);
    assert_eq!(probe(&main), TreeState::Clean);
}

#[test]
fn a_git_that_fails_never_makes_a_tree_clean() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let oid = "0123456789012345678901234567890123456789";
    for (name, body, why) in [
        (
            "fails",
            "echo fatal: no >&2; exit 128",
            "failed with 128: fatal: no",
        ),
        ("killed", "kill -9 $$", "ended by a signal"),
        ("empty", "exit 0", "printed nothing"),
        ("garbage", "echo garbage", "cut off"),
        ("cut", "printf '# branch.oid'", "cut off"),
        ("one", "exit 1", "git ended with Some(1)"),
        (
            "warns",
            &format!("printf '# branch.oid {oid}\\0# branch.head m\\0'; echo warning: x >&2"),
            "warned: warning: x",
        ),
    ] {
        let git = bench.script(name, body);
        match probe_with(&w, Some(git), false) {
            TreeState::Unknown(what) if what.contains(why) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    let missing = probe_with(&w, Some(bench.path("no-git")), false);
    assert!(
        matches!(&missing, TreeState::Unknown(why) if why.contains("cannot run")),
        "{missing:?}"
    );
}

#[test]
fn a_git_that_hangs_is_ended_with_all_it_started() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let pids = bench.path("pids");
    let body = format!(
        "echo $$ >>{0}; sleep 1000 & echo $! >>{0}; wait",
        pids.display()
    );
    let launcher = Launcher {
        git: Some(bench.script("hangs", &body)),
        ..Launcher::default()
    };
    let state = block_on(async {
        let (prober, _) = prober(launcher, Duration::from_millis(500), false);
        prober.probe(ME, w.clone(), None).await
    });
    assert!(
        matches!(&state, TreeState::Unknown(why) if why.contains("timed out")),
        "{state:?}"
    );
    let pids = std::fs::read_to_string(pids).unwrap();
    assert_eq!(pids.lines().count(), 2);
    for pid in pids.lines() {
        crate::helpers::wait_until(&format!("{pid} is gone"), || is_dead(pid));
    }
    assert!(!bench.path("main/.git/worktrees/w/index.lock").exists());
}

/// Gone, or dead and not yet reaped by somebody else.
pub fn is_dead(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).map_or(true, |stat| {
        stat.rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('Z')
    })
}

#[test]
fn a_commit_beside_the_probe_never_meets_a_lock() {
    let bench = Bench::new();
    let w = bench.linked("w");
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let commits = scope.spawn(|| {
            let mut done = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) || done < 20 {
                bench.write("w/a", &format!("{done}\n"));
                assert!(
                    bench.try_git(&w, &["commit", "-qam", "more"]),
                    "commit {done}"
                );
                done += 1;
            }
            done
        });
        block_on(async {
            let (prober, launcher) = prober(Launcher::default(), Duration::from_secs(30), false);
            for _ in 0..200 {
                prober.probe(ME, w.clone(), None).await;
            }
            let started = launcher.started.load(std::sync::atomic::Ordering::SeqCst);
            assert_eq!(started, 1, "one helper for all probes");
        });
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(commits.join().unwrap() >= 20);
    });
    assert_eq!(probe(&w), TreeState::Clean);
}
