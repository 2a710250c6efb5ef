use proptest::prelude::*;

use super::strategies;
use crate::registry::record::{Extra, Loaded, RecordError, decode, encode};
use crate::worker::{Exit, Kind, Owner, ReplyTo, Row, Status, Timestamp, WorkerId};

const FULL: &str = include_str!("../../tests/fixtures/rows/v1-full.toml");
const LEAST: &str = include_str!("../../tests/fixtures/rows/v1-least.toml");

fn id(text: &str) -> WorkerId {
    text.parse().unwrap()
}

fn load(text: &str) -> (Row, Extra) {
    let table: toml::Table = toml::from_str(text).unwrap();
    match decode(id(table["id"].as_str().unwrap()), text.as_bytes()) {
        Ok(Loaded::Row(row, extra)) => (*row, extra),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_row_survives_its_file(row in strategies::row()) {
        let text = encode(&row, &None);
        let back = decode(row.id, text.as_bytes());
        prop_assert_eq!(back, Ok(Loaded::Row(Box::new(row), None)), "{}", text);
    }

    #[test]
    fn any_row_keeps_unknown_keys(row in strategies::row(), key in strategies::text()) {
        let mut extra = toml::Table::new();
        let inner = toml::Table::from_iter([(format!("later {key}"), toml::Value::from(1.5))]);
        for table in ["owner", "process", "exit", "cancelled", "tokens", "limits", "later"] {
            extra.insert(table.to_owned(), inner.clone().into());
        }
        extra.insert(format!("Later{key}"), toml::Value::Array(vec![inner.into()]));
        extra.insert(format!("later.{key}"), key.into());
        let extra = Some(Box::new(extra));
        let text = encode(&row, &extra);
        let back = decode(row.id, text.as_bytes());
        prop_assert_eq!(back, Ok(Loaded::Row(Box::new(row), extra)), "{}", text);
    }

    #[test]
    fn no_bytes_make_the_reader_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(id("00000001"), &text);
    }

    #[test]
    fn a_spoiled_file_is_an_error_or_a_row_and_never_a_panic(
        at in 0..FULL.len(),
        byte in any::<u8>(),
        cut in any::<bool>(),
    ) {
        let mut text = FULL.as_bytes().to_vec();
        text[at] = byte;
        if cut {
            text.truncate(at);
        }
        let _ = decode(id("7c9zkq3m"), &text);
    }
}

#[test]
fn the_full_fixture_means_what_it_says() {
    let (row, extra) = load(FULL);
    assert_eq!(row.status, Status::Stopping);
    assert_eq!(
        row.owner,
        Owner {
            uid: 1000,
            gid: 1000
        }
    );
    assert_eq!(row.created, Timestamp(1_778_311_770_123_456));
    assert_eq!(row.started, Some(Timestamp(1_778_311_770_200_000)));
    assert_eq!(row.exited, Some(Timestamp(1_778_311_771_000_001)));
    assert_eq!(row.exit, Some(Exit::Signal(9)));
    assert_eq!(row.argv[3].as_encoded_bytes(), b"raw\xff\\end");
    assert_eq!(
        row.kind,
        Kind::Think {
            purpose: "review".into(),
            ctx: Some("pr-17".into()),
            reply_to: Some(ReplyTo {
                node: 3,
                request: 9
            }),
            extra: "{\"a\": 1}".into(),
            reservation: Some(u64::MAX),
        }
    );
    assert_eq!(row.process.unwrap().pid.get(), 4194305);
    assert_eq!(row.ending.stop_hook.len(), 3);
    assert_eq!(row.generation, 17);
    let extra = extra.unwrap();
    let keys: Vec<_> = extra.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "kind",
            "later_list",
            "later_scalar",
            "later_table",
            "process"
        ]
    );
}

#[test]
fn every_fixture_survives_a_rewrite_with_its_unknown_keys() {
    for text in [FULL, LEAST] {
        let (row, extra) = load(text);
        let rewritten = encode(&row, &extra);
        assert!(rewritten.starts_with("schema = 1\nid = "), "{rewritten}");
        assert_eq!(load(&rewritten), (row, extra));
    }
}

#[test]
fn the_fullest_fixture_leaves_no_key_of_a_row_out() {
    let (row, _) = load(FULL);
    let full = encode(&row, &None);
    let kept: toml::Table = toml::from_str(FULL).unwrap();
    let written: toml::Table = toml::from_str(&full).unwrap();
    for (key, value) in &written {
        assert!(kept.contains_key(key), "the fixture lacks {key}");
        for inner in value.as_table().into_iter().flat_map(|t| t.keys()) {
            assert!(
                kept[key].get(inner).is_some(),
                "the fixture lacks {key}.{inner}"
            );
        }
    }
}

#[test]
fn nothing_but_the_least_needs_to_be_there() {
    let (row, extra) = load(LEAST);
    let created = Timestamp(1_778_311_770_000_000);
    let least = Row::new(id("00000001"), Owner { uid: 0, gid: 0 }, created);
    assert_eq!((row, extra), (least, None));
}

fn error_of(text: &str) -> String {
    decode(id("00000001"), text.as_bytes())
        .expect_err(text)
        .to_string()
}

#[test]
fn each_bad_value_is_named_by_its_key() {
    for (line, key) in [
        ("schema = 1", ""),
        ("name = 5", "name"),
        ("status = \"dead\"", "status"),
        ("argv = \"x\"", "argv"),
        ("argv = [1]", "argv"),
        ("cwd = { bytes = \"\\\\xzz\" }", "cwd"),
        ("parent = \"zz\"", "parent"),
        ("depth = -1", "depth"),
        ("created = \"yesterday\"", "created"),
        ("started = 2026-05-09", "started"),
        ("started = 2026-05-09T07:29:30", "started"),
        ("outcome = \"fine\"", "outcome"),
        ("oom_killed = 1", "oom_killed"),
        ("took = \"5min\"", "took"),
        ("took = 5", "took"),
        ("pgid = 1", "pgid"),
        ("pgid = 0", "pgid"),
        ("pgid = -1", "pgid"),
        ("restart = \"sometimes\"", "restart"),
        ("generation = -5", "generation"),
        ("generation = 99999999999999999999999", "generation"),
        ("id = \"00000002\"", "id"),
        ("id = 7", "id"),
        ("owner = 5", "owner"),
        (
            "process.pid = 1\nprocess.start_ticks = 1",
            "process.boot_id",
        ),
        ("kind.type = \"boss\"", "kind.type"),
        (
            "kind = { type = \"think\", reply_to_node = 1 }",
            "kind.reply_to_request",
        ),
        ("exit = { code = 1, signal = 9 }", "exit"),
        ("cancelled.by = 0", "cancelled.at"),
        ("limits.nice = \"x\"", "limits.nice"),
        ("timeouts.pong = \"-1s\"", "timeouts.pong"),
    ] {
        let name = line.split([' ', '.']).next().unwrap();
        let mut text: String = LEAST
            .lines()
            .take_while(|l| !l.starts_with('['))
            .filter(|l| !l.starts_with(&format!("{name} ")))
            .flat_map(|l| [l, "\n"])
            .collect();
        text.push_str(line);
        if name != "owner" {
            text.push_str("\nowner = { uid = 0, gid = 0 }");
        }
        if key.is_empty() {
            load(&text);
            continue;
        }
        let error = error_of(&text);
        assert!(
            error.starts_with(&format!("key {key:?} ")),
            "{line}: {error}"
        );
    }
}

#[test]
fn pids_that_mean_more_than_one_process_are_refused() {
    for pid in ["0", "1", "-1", "-4242", "99999999999"] {
        let text = FULL.replace("pid = 4194305\nstart", &format!("pid = {pid}\nstart"));
        let error = decode(id("7c9zkq3m"), text.as_bytes()).unwrap_err();
        assert!(
            error.to_string().starts_with("key \"process.pid\""),
            "{error}"
        );
    }
}

#[test]
fn a_row_whose_pid_is_ours_by_now_loads_without_it() {
    let me = std::process::id();
    let text = FULL
        .replace("4194305", &me.to_string())
        .replace("note = ", "later_note = ");
    let (row, _) = load(&text);
    assert_eq!((row.process, row.pgid), (None, None));
    assert!(row.note.unwrap().contains("musterd itself"));
}

#[test]
fn files_that_are_no_rows_say_why() {
    let cut = &FULL[..FULL.len() / 3];
    for (text, why) in [
        ("", "the file is empty"),
        ("\0\0\0\0", "the file holds NUL bytes"),
        (
            "schema = 1\nid = \"00000001\"\n\0\0\0",
            "the file holds NUL bytes",
        ),
        ("schema = 1\nschema = 1\n", "line 2: duplicate key"),
        (
            "schema = 1\nname = \"a\"\nname = \"b\"\n",
            "line 3: duplicate key",
        ),
        ("id = \"00000001\"", "key \"schema\" is missing"),
        ("schema = 0", "key \"schema\" is 0"),
        ("schema = \"one\"", "key \"schema\" is no integer"),
        ("schema = -1", "key \"schema\" is no integer"),
        ("schema = 1", "key \"id\" is missing"),
        ("not toml", "line 1: "),
    ] {
        let error = error_of(text);
        assert!(error.starts_with(why), "{text:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    assert!(decode(id("7c9zkq3m"), cut.as_bytes()).is_err());
    assert_eq!(
        decode(id("00000001"), b"schema = 1\nname = \"\xff\""),
        Err(RecordError::NotUtf8(19))
    );
}

#[test]
fn a_newer_row_is_shown_as_far_as_it_is_understood() {
    let text = FULL
        .replace("schema = 1", "schema = 999")
        .replace("status = \"stopping\"", "status = \"dreaming\"")
        .replace("pid = 4194305\nstart", "pid = -1\nstart")
        .replace("took = \"2.013441s\"", "took = { minutes = 2 }");
    let loaded = decode(id("7c9zkq3m"), text.as_bytes()).unwrap();
    let Loaded::Newer {
        id: found,
        schema,
        shown,
    } = loaded
    else {
        panic!("{loaded:?}");
    };
    assert_eq!((found, schema), (id("7c9zkq3m"), 999));
    assert_eq!(shown.name, "fix the flaky test");
    assert_eq!((shown.took, shown.process), (None, None));
    assert!(decode(id("7c9zkq3m"), b"schema = 2").is_ok());
}
