use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn heard(value: &Value) -> Heard {
    Up::read(value.to_string().as_bytes()).unwrap()
}

fn shown(value: &Value) -> String {
    format!("{:?}", heard(value))
}

fn read(frame: &Down<'_>) -> Value {
    let bytes = frame.encode().unwrap();
    assert_eq!(
        bytes[..4],
        u32::try_from(bytes.len() - 4).unwrap().to_be_bytes()
    );
    serde_json::from_slice(&bytes[4..]).unwrap()
}

#[test]
fn every_frame_of_a_worker_is_understood() {
    let table = [
        (json!({"type": "ready"}), "Frame(Ready, 0)"),
        (
            json!({"type": "pong", "seq": 7}),
            "Frame(Pong { seq: 7 }, 0)",
        ),
        (
            json!({"type": "event", "event": "tool", "fields": {"a": [1]}}),
            "Frame(Event { event: \"tool\" }, 0)",
        ),
        (
            json!({"type": "usage", "input_tokens": 3}),
            "Frame(Usage { input_tokens: 3, output_tokens: 0 }, 0)",
        ),
        (
            json!({"type": "failed", "error": "no"}),
            "Frame(Failed { error: \"no\" }, 0)",
        ),
        (
            json!({"type": "result", "outcome": {"x": 1}}),
            "Frame(Result { outcome: Some(RawValue({\"x\":1})) }, 0)",
        ),
        (
            json!({"type": "request", "id": 1, "name": "status"}),
            "Frame(Request { id: 1, name: \"status\", args: None }, 0)",
        ),
    ];
    for (frame, expected) in table {
        assert_eq!(shown(&frame), expected);
    }
    let whole = json!({"type": "turn_done", "text": "x", "seq": 1});
    let Heard::Frame(Up::TurnDone(kept), 0) = heard(&whole) else {
        panic!("{}", shown(&whole))
    };
    assert_eq!(serde_json::from_str::<Value>(kept.get()).unwrap(), whole);
}

#[test]
fn what_is_not_known_is_skipped_and_counted() {
    let table = [
        (
            json!({"type": "pong", "seq": 7, "x": 1, "y": {}, "event": 1}),
            "Frame(Pong { seq: 7 }, 3)",
        ),
        (json!({"type": "later"}), "Unknown"),
        (json!({"type": 5}), "Unknown"),
        (json!({}), "Unknown"),
    ];
    for (frame, expected) in table {
        assert_eq!(shown(&frame), expected);
    }
}

#[test]
fn an_unusable_field_is_named_and_ends_nothing() {
    let table = [
        (json!({"type": "pong"}), "seq"),
        (json!({"type": "pong", "seq": -1}), "seq"),
        (
            json!({"type": "usage", "input_tokens": "3"}),
            "input_tokens",
        ),
        (
            json!({"type": "usage", "output_tokens": 1.5}),
            "output_tokens",
        ),
        (json!({"type": "request", "id": 1}), "name"),
        (json!({"type": "event"}), "event"),
    ];
    for (frame, field) in table {
        assert_eq!(shown(&frame), format!("Malformed({field:?})"), "{frame}");
    }
}

#[test]
fn that_it_failed_is_heard_however_it_says_why() {
    for (frame, error) in [
        (json!({"type": "failed", "error": "no"}), "no"),
        (json!({"type": "failed", "error": {"a": 1}}), "{\"a\":1}"),
        (json!({"type": "failed"}), ""),
    ] {
        let heard = format!("Frame(Failed {{ error: {error:?} }}, 0)");
        assert_eq!(shown(&frame), heard, "{frame}");
    }
}

#[test]
fn what_is_no_object_is_no_frame() {
    let deep = format!("{{\"type\":{}1{}}}", "[".repeat(9), "]".repeat(8));
    for text in [
        "",
        "[]",
        "[\"ready\"]",
        "\"ready\"",
        "7",
        "{",
        "{\"type\":\"ready\"} x",
        &deep,
    ] {
        assert!(Up::read(text.as_bytes()).is_err(), "{text}");
    }
    assert!(Up::read(b"{\"type\":\"\xff\"}").is_err());
}

#[test]
fn an_object_nested_past_all_measure_is_an_object_or_none_but_never_a_crash() {
    for depth in [100, 10_000, 400_000] {
        let text = format!(
            "{{\"type\":\"result\",\"outcome\":{}{}}}",
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let _ = Up::read(text.as_bytes());
    }
}

#[test]
fn frames_to_a_worker_have_their_documented_shape() {
    let raw = RawValue::from_string("[1, 2]".into()).unwrap();
    let fault = Fault {
        name: "TooMany".into(),
        message: "no".into(),
    };
    let kind = Kind::Subagent { handle: "h".into() };
    let spawn = Spawn {
        worker: WorkerId::from_bits(0),
        node: 3,
        name: "n",
        kind: &kind,
        label: kind.label(),
        parent: None,
        depth: 1,
        msg_depth: 2,
        trace_id: "t",
        payload: Some(&raw),
        limits: Limits::default(),
    };
    let spawned = read(&Down::Spawn(Box::new(spawn)));
    assert_eq!(spawned["type"], "spawn");
    assert_eq!(spawned["payload"], json!([1, 2]));
    assert_eq!(spawned["kind"], json!({"type": "subagent", "handle": "h"}));
    let table = [
        (Down::Ping { seq: 1 }, json!({"type": "ping", "seq": 1})),
        (Down::Pause, json!({"type": "pause"})),
        (Down::Resume, json!({"type": "resume"})),
        (
            Down::Cancel { reason: "r" },
            json!({"type": "cancel", "reason": "r"}),
        ),
        (
            Down::Inject { message: &raw },
            json!({"type": "inject", "message": [1, 2]}),
        ),
        (
            Down::Result {
                id: 4,
                result: Some(raw.clone()),
                error: None,
            },
            json!({"type": "result", "id": 4, "result": [1, 2]}),
        ),
        (
            Down::Result {
                id: 4,
                result: None,
                error: Some(fault),
            },
            json!({"type": "result", "id": 4, "error": {"name": "TooMany", "message": "no"}}),
        ),
    ];
    for (frame, expected) in table {
        assert_eq!(read(&frame), expected);
    }
}

#[test]
fn only_three_frames_are_passed_on() {
    let frame = passed_on(r#" {"type":"inject","message":{"a" : 1}}"#).unwrap();
    assert_eq!(&frame[4..], br#"{"type":"inject","message":{"a" : 1}}"#);
    assert!(passed_on(r#"{"type":"inject","message":null}"#).is_ok());
    assert!(passed_on(r#"{"type":"pause"}"#).is_ok());
    assert!(passed_on(r#"{"type":"resume"}"#).is_ok());
    for text in [
        r#"{"type":"inject"}"#,
        r#"{"type":"pause","message":1}"#,
        r#"{"type":"cancel","reason":"x"}"#,
        r#"{"type":"spawn"}"#,
        r#"{"type":"inject","message":1,"x":2}"#,
        r#"["pause",null]"#,
        r#"{"message":1}"#,
        "",
        "pause",
    ] {
        assert!(passed_on(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn whatever_bytes_come_they_are_a_frame_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Up::read(&bytes);
    }

    #[test]
    fn whatever_an_object_says_it_is_heard(
        word in "(ready|pong|event|usage|turn_done|result|failed|request|[a-z]{1,5})",
        fields in proptest::collection::vec(
            ("(type|seq|event|fields|input_tokens|outcome|error|id|name|args|[a-z]{1,3})",
             "(1|-1|1[.]5|\"x\"|null|true|\\[1\\]|\\{\"a\":\\[\\]\\}|18446744073709551615)"), 0..8),
    ) {
        let mut text = format!("{{\"type\":\"{word}\"");
        for (name, value) in &fields {
            text.push_str(&format!(",\"{name}\":{value}"));
        }
        text.push('}');
        prop_assert!(Up::read(text.as_bytes()).is_ok(), "{}", text);
    }
}
