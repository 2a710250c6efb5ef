use std::fs;
use std::path::Path;
use std::time::Duration;

use super::{
    Cgroup, Config, ConfigErrors, Ignored, LogLevel, Paths, Signal, Size, Umask, parse_duration,
    show_duration,
};
use crate::worker::LeftoversPolicy;

const SHIPPED: &str = include_str!("../../config/musterd.toml");

/// Files under a root, with their texts.
fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

fn load(files: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    let dir = root(files);
    Config::load(&Paths::system(dir.path())).map(|(config, _)| config)
}

const MAIN: &str = "etc/musterd/musterd.toml";

/// Faults of the main file as `LINE: WHAT`.
fn faults(text: &str) -> Vec<String> {
    let errors = load(&[(MAIN, text)]).expect_err(text);
    errors
        .0
        .iter()
        .map(|f| {
            assert!(f.file.ends_with(MAIN), "{f}");
            format!("{}: {}", f.line, f.what)
        })
        .collect()
}

#[test]
fn no_file_at_all_is_the_default() {
    assert_eq!(load(&[]), Ok(Config::default()));
}

#[test]
fn the_shipped_file_is_the_default_and_complete() {
    let body = SHIPPED.split_once("\n\n").unwrap().1;
    assert_eq!(body, Config::default().to_toml().trim_start_matches('\n'));
    assert_eq!(load(&[(MAIN, SHIPPED)]), Ok(Config::default()));
}

#[test]
fn every_default_is_within_its_own_range_and_every_key_has_its_why() {
    for section in Config::SECTIONS {
        assert!(!Config::about(section).is_empty());
        for key in Config::keys(section).unwrap() {
            assert!(key.why.len() > 10, "{section}.{}", key.name);
        }
    }
}

#[test]
fn a_changed_configuration_survives_its_text() {
    let text = "[gc]\ngrace = '90min'\nignored = 'dirty'\n[workers]\nleftovers = 'wait'\n\
                umask = '0077'\noutput_max = '1GiB'\n[ladder]\nstop_signal = 'INT'\n\
                kill_grace = '1s 500ms'\n[containment]\ncgroup = '/user.slice/agents'\n\
                [log]\nlevel = 'debug'\n[service]\nidle_exit = 0\n";
    let config = load(&[(MAIN, text)]).unwrap();
    assert_eq!(config.gc.grace, Duration::from_secs(5400));
    assert_eq!(config.gc.ignored, Ignored::Dirty);
    assert_eq!(config.workers.leftovers, LeftoversPolicy::Wait);
    assert_eq!(config.workers.umask, Umask(0o077));
    assert_eq!(config.workers.output_max, Size(1 << 30));
    assert_eq!(config.ladder.stop_signal, Signal(libc::SIGINT));
    assert_eq!(config.ladder.kill_grace, Duration::from_millis(1500));
    assert_eq!(
        config.containment.cgroup,
        Cgroup::Path("/user.slice/agents".into())
    );
    assert_eq!(config.log.level, LogLevel::Debug);
    assert_eq!(config.service.idle_exit, Duration::ZERO);
    assert_eq!(load(&[(MAIN, &config.to_toml())]), Ok(config));
}

#[test]
fn stronger_layers_win_key_by_key() {
    let dir = root(&[
        (
            "usr/lib/musterd/musterd.toml",
            "[gc]\ngrace = '1h'\ninterval = '1h'\n",
        ),
        (
            "usr/lib/musterd/musterd.toml.d/50-a.toml",
            "[gc]\nprobe_parallel = 50\n",
        ),
        (
            "usr/lib/musterd/musterd.toml.d/90-b.toml",
            "[gc]\nprobe_parallel = 90\n",
        ),
        (
            "usr/lib/musterd/musterd.toml.d/95-masked.toml",
            "[gc]\nprobe_parallel = 95\n",
        ),
        (
            "run/musterd/musterd.toml.d/90-b.toml",
            "[gc]\nprobe_timeout = '9s'\n",
        ),
        (MAIN, "[gc]\ngrace = '2h'\n"),
        (
            "etc/musterd/musterd.toml.d/10-c.toml",
            "[gc]\nprobe_parallel = 10\ngrace = '3h'\n",
        ),
        ("etc/musterd/musterd.toml.d/95-masked.toml", ""),
        ("etc/musterd/musterd.toml.d/README", "not read"),
        ("etc/musterd/musterd.toml.d/.10-c.toml.swp", "not read"),
        ("etc/musterd/musterd.toml.d/.hidden.toml", "not read"),
    ]);
    let (config, read) = Config::load(&Paths::system(dir.path())).unwrap();
    assert_eq!(config.gc.grace, Duration::from_secs(3 * 3600));
    assert_eq!(config.gc.interval, Duration::from_secs(3600));
    assert_eq!(config.gc.probe_parallel, 50);
    assert_eq!(config.gc.probe_timeout, Duration::from_secs(9));
    let read: Vec<_> = read
        .iter()
        .map(|p| p.strip_prefix(dir.path()).unwrap().to_str().unwrap())
        .collect();
    assert_eq!(
        read,
        [
            "usr/lib/musterd/musterd.toml",
            MAIN,
            "etc/musterd/musterd.toml.d/10-c.toml",
            "usr/lib/musterd/musterd.toml.d/50-a.toml",
            "run/musterd/musterd.toml.d/90-b.toml",
            "etc/musterd/musterd.toml.d/95-masked.toml",
        ]
    );
}

#[test]
fn a_users_layers_are_below_the_config_home() {
    let dir = root(&[
        ("musterd/musterd.toml", "[gc]\ngrace = '1h'\n"),
        (
            "musterd/musterd.toml.d/a.toml",
            "[gc]\nprobe_parallel = 7\n",
        ),
    ]);
    let (config, read) = Config::load(&Paths::user(dir.path())).unwrap();
    assert_eq!((config.gc.probe_parallel, read.len()), (7, 2));
}

#[test]
fn all_faults_are_told_at_once_with_their_lines_and_the_nearest_right_key() {
    let text = "\
stray = 1
grace = '1h'
restart = 5
[gc]
grcae = '1h'
grace = '1 fortnight'
probe_parallel = 0
ignored = 'maybe'
colour = 'red'
[laddre]
grace = '1s'
[ladder]
stop-signal = 'SIGTERM'
stop_signal = 'SIGNOTHING'
[workers]
umask = 22
private_tmp = 'yes'
output_max = '64 potatoes'
oom_score_adj = 2000
[log]
level = 'loud'
";
    assert_eq!(
        faults(text),
        [
            "1: unknown section \"stray\"",
            "2: the key \"grace\" belongs below [gc]",
            "3: \"restart\" is a section: write [restart]",
            "5: [gc] unknown key \"grcae\"; did you mean \"grace\"?",
            "6: gc.grace \"1 fortnight\" is no length of time, as \"90s\" or \"1h 30min\" are",
            "7: gc.probe_parallel is 0, which is not between 1 and 256",
            "8: gc.ignored \"maybe\" is none of \"ignore\", \"dirty\"",
            "9: [gc] unknown key \"colour\"",
            "10: unknown section \"laddre\"; did you mean \"ladder\"?",
            "13: [ladder] unknown key \"stop-signal\"; did you mean \"stop_signal\"?",
            "14: ladder.stop_signal \"SIGNOTHING\" is no signal's name, as \"SIGTERM\" is one",
            "16: workers.umask takes octal digits in quotes, as \"0022\"",
            "17: workers.private_tmp takes true or false, not a string",
            "18: workers.output_max \"64 potatoes\" is no size, as \"64MiB\" is one",
            "19: workers.oom_score_adj is 2000, which is not between -1000 and 1000",
            "21: log.level \"loud\" is none of \"error\", \"warn\", \"info\", \"debug\", \"trace\"",
        ]
    );
}

#[test]
fn a_broken_line_is_told_and_the_rest_is_still_checked() {
    let found = faults("[gc]\ngrace = \n[ladder]\ngrase = '1s'\n");
    assert!(found.iter().any(|f| f.starts_with("2: ")), "{found:?}");
    assert!(
        found.iter().any(|f| f.contains("did you mean \"grace\"")),
        "{found:?}"
    );
    let found = faults("[gc]\ngrace = '1h'\ngrace = '2h'\n");
    assert_eq!(found, ["3: duplicate key"]);
}

#[test]
fn faults_of_several_files_are_told_together() {
    let dropin = "etc/musterd/musterd.toml.d/a.toml";
    let dir = root(&[(MAIN, "[gc]\nx = 1\n"), (dropin, "\n[gc]\ny = 1\n")]);
    let text = Config::load(&Paths::system(dir.path()))
        .unwrap_err()
        .to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    let begins = |n: usize, file: &str, line| {
        lines[n].starts_with(&format!("{}:{line}: ", dir.path().join(file).display()))
    };
    assert!(begins(0, MAIN, 2) && begins(1, dropin, 3), "{text}");
}

#[test]
fn negative_and_huge_values_are_refused() {
    for line in [
        "[gc]\ngrace = -1",
        "[gc]\ngrace = '-1s'",
        "[gc]\ngrace = 5",
        "[gc]\ngrace = '99999999d'",
        "[gc]\ngrace = '99999999999999999999d'",
        "[gc]\ngrace = ''",
        "[gc]\nprobe_timeout = '0'",
        "[ladder]\ndrain_timeout = '0'",
        "[limits]\nmax_workers = -1",
        "[limits]\nmax_workers = 0",
        "[limits]\nmax_workers = 5000000000",
        "[limits]\nmax_frame = '99999999999TiB'",
        "[limits]\nmax_frame = '1'",
        "[limits]\nmemory_pressure = 101",
        "[limits]\nmax_workers = 1.5",
        "[workers]\numask = '0999'",
        "[workers]\numask = '1777'",
        "[workers]\numask = '+22'",
        "[ladder]\nstop_signal = 0",
        "[ladder]\nstop_signal = 65",
        "[containment]\ncgroup = 'relative/path'",
        "[restart]\nbackoff_min = '10min'",
    ] {
        let found = faults(line);
        assert!(
            found.len() == 1 && found[0].starts_with("2: "),
            "{line}: {found:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault_and_not_a_default() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join(MAIN)).unwrap();
    let error = Config::load(&Paths::system(dir.path()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("cannot be read"), "{error}");

    let dir = root(&[]);
    let path = dir.path().join(MAIN);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, b"[gc]\n\xff\n").unwrap();
    let error = Config::load(&Paths::system(dir.path())).unwrap_err();
    assert_eq!(
        (error.0[0].line, error.0[0].what.as_str()),
        (2, "is not UTF-8 text")
    );
}

#[test]
fn lengths_of_time_survive_their_text() {
    for (text, millis) in [
        ("0", 0),
        ("500ms", 500),
        ("90s", 90_000),
        ("1h 30min", 5_400_000),
        ("1h30m", 5_400_000),
        ("24h", 86_400_000),
        ("7d", 604_800_000),
        (" 5 min ", 300_000),
    ] {
        let duration = Duration::from_millis(millis);
        assert_eq!(parse_duration(text), Ok(duration), "{text}");
        assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
    }
    assert_eq!(show_duration(Duration::from_secs(86_400)), "24h");
    assert_eq!(show_duration(Duration::from_secs(7 * 86_400)), "7d");
    for bad in ["", "s", "5", "5 5", "1.5s", "-1s", "5 parsecs", "1h-", "é"] {
        assert!(parse_duration(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn the_shipped_file_can_be_made_from_the_code() {
    // Run with MUSTERD_WRITE_CONFIG=1 after a change of the table in config/mod.rs.
    if std::env::var_os("MUSTERD_WRITE_CONFIG").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/musterd.toml");
        let head = SHIPPED.split_once("\n\n").unwrap().0;
        fs::write(path, format!("{head}\n{}", Config::default().to_toml())).unwrap();
    }
}
