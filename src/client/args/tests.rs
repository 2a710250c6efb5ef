use super::*;
use crate::worker::RestartPolicy;

fn parse(words: &[&str]) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("musterctl").chain(words.iter().copied()))
}

fn run(words: &[&str]) -> RunArgs {
    match parse(words).unwrap().verb {
        Some(Verb::Run(args)) => *args,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_definition_is_sound() {
    command().debug_assert();
}

#[test]
fn no_verb_is_list_and_aliases_are_known() {
    assert!(parse(&[]).unwrap().verb.is_none());
    for verb in ["list", "ls", "ps"] {
        assert!(
            matches!(parse(&[verb, "-a"]).unwrap().verb, Some(Verb::List(l)) if l.all),
            "{verb}"
        );
    }
    assert_eq!(run(&["spawn", "true"]).command, ["true"]);
}

#[test]
fn the_first_free_word_of_run_begins_the_command() {
    let args = run(&["run", "--name", "x", "sh", "-c", "exit 3", "--name", "y"]);
    assert_eq!(args.name.as_deref(), Some("x"));
    assert_eq!(args.command, ["sh", "-c", "exit 3", "--name", "y"]);
    assert_eq!(run(&["run", "--", "-odd"]).command, ["-odd"]);
    let args = run(&["run", "--", "grep", "--", "-x", "-j"]);
    assert_eq!(args.command, ["grep", "--", "-x", "-j"]);
}

#[test]
fn every_option_of_run_is_taken() {
    let args = run(&[
        "run",
        "--name=n",
        "--worktree=/w",
        "--kind=subagent",
        "--kind-field=handle=h",
        "--deadline=1h",
        "--idle-timeout=5min",
        "--memory-max=512M",
        "--tasks-max=64",
        "--cpu-weight=50",
        "--cpu-max=150%",
        "--nice=-5",
        "--tokens-max=1000",
        "--restart=on-failure",
        "--restart-max=2",
        "--control=frames",
        "--payload={}",
        "--wait",
        "--pipe",
        "--private-tmp",
        "--no-wait",
        "-d",
        "/d",
        "-E",
        "A=b",
        "-E",
        "C",
        "--clean-env",
        "--grace=1s",
        "--kill-grace=2s",
        "--stop-signal=INT",
        "--leftovers=wait",
        "--priority=low",
        "--trace-id=t",
        "--",
        "cmd",
        "arg",
    ]);
    assert_eq!(args.memory_max, Some(512 << 20));
    assert_eq!(args.cpu_max, Some(150));
    assert_eq!(args.nice, Some(-5));
    assert_eq!(args.stop_signal, Some(2));
    assert_eq!(args.kind, Some("subagent".to_owned()));
    assert_eq!(args.restart, Some(RestartPolicy::OnFailure));
    assert_eq!(args.setenv, ["A=b", "C"]);
    assert_eq!(args.working_directory, Some("/d".into()));
    assert!(args.wait && args.pipe && args.no_wait && args.private_tmp && args.clean_env);
}

#[test]
fn global_options_stand_before_and_after_the_verb() {
    let cli = parse(&[
        "--json=short",
        "reap",
        "--dry-run",
        "--socket=/s",
        "--no-legend",
    ])
    .unwrap();
    assert_eq!(cli.global.json, Some(JsonMode::Short));
    assert_eq!(cli.global.socket, Some("/s".into()));
    assert!(cli.global.no_legend);
}

#[test]
fn bad_lines_are_usage_errors() {
    for words in [
        &["nosuch"][..],
        &["run"],
        &["run", "--nice", "x", "true"],
        &["run", "--deadline", "5x", "true"],
        &["run", "--detach", "--pipe", "true"],
        &["cancel"],
        &["send", "a"],
        &["send", "a", "stop"],
        &["send", "a", "pause", "--inject", "1"],
        &["wait", "--timeout=x", "a"],
        &["kill", "-s", "NOSUCH", "a"],
        &["--system", "--user", "list"],
        &["list", "--json=xml"],
        &["list", "--status=nosuch"],
    ] {
        let error = parse(words).expect_err(&format!("{words:?}"));
        assert_eq!(error.exit_code(), 2, "{words:?}");
    }
}
