use super::*;
use crate::client::args::{Cli, Verb};
use clap::Parser;

fn spec(words: &[&str]) -> Result<Box<Spec>, Failure> {
    let line = ["musterctl", "run"].iter().chain(words).copied();
    match Cli::try_parse_from(line).unwrap().verb {
        Some(Verb::Run(args)) => prepare(&args),
        other => panic!("{other:?}"),
    }
}

#[test]
fn options_reach_the_spec() {
    let spec = spec(&[
        "--name=n",
        "--worktree=none",
        "--kind=subagent:h",
        "--deadline=1h",
        "--grace=1s",
        "--stop-signal=INT",
        "--nice=5",
        "--cpu-max=50%",
        "--clean-env",
        "-E",
        "A=b",
        "-d",
        "/tmp",
        "--control=frames",
        "--payload={\"a\":1}",
        "--",
        "true",
        "x",
    ])
    .unwrap();
    assert_eq!(spec.argv, ["true", "x"]);
    assert_eq!(spec.kind.label(), "subagent:h");
    assert_eq!(spec.cwd, Path::new("/tmp"));
    assert_eq!(spec.worktree, WorktreeChoice::None);
    assert_eq!(spec.ending.stop_signal, Some(2));
    assert_eq!(spec.ending.grace, Some(Duration::from_secs(1)));
    assert_eq!(spec.limits.cpu_max_percent, Some(50));
    assert!(spec.env.0.contains(&"A=b".into()));
}

#[test]
fn relative_paths_are_taken_from_the_current_directory() {
    let here = std::env::current_dir().unwrap();
    assert_eq!(spec(&["true"]).unwrap().cwd, here);
    let spec = spec(&["-d", "a", "--worktree", "b", "true"]).unwrap();
    assert_eq!(spec.cwd, here.join("a"));
    assert_eq!(spec.worktree, WorktreeChoice::Path(here.join("b")));
}

#[test]
fn a_bad_spec_is_a_usage_error_before_any_daemon_is_started() {
    for words in [
        &["--name=a/b", "true"][..],
        &["--nice=99", "true"],
        &["--cpu-weight=0", "true"],
        &["--payload={}", "true"],
        &["--control=frames", "--payload={", "true"],
        &["--payload=@/nosuch/file", "true"],
        &["--kind=nosuch", "true"],
        &["-E", "=x", "true"],
    ] {
        let failure = spec(words).expect_err(&format!("{words:?}"));
        assert_eq!(failure.code, Code::USAGE, "{words:?}");
    }
}

#[test]
fn only_refusals_that_pass_by_themselves_are_waited_out() {
    for (name, yes) in [
        ("org.muster1.Error.Refused.SpawnRate", true),
        ("org.muster1.Error.Refused.MemoryPressure", true),
        ("org.muster1.Error.Refused.Draining", false),
        ("org.muster1.Error.Refused.TooMany", false),
        ("org.muster1.Error.NameTaken", false),
    ] {
        assert_eq!(passes(name), yes, "{name}");
    }
}
