//! Every key of Spawn's dictionary, to the supervisor and back.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use musterd::dbus::client::CallError;
use musterd::dbus::errors::Code;
use musterd::dbus::spec::{SPAWN_KEYS, spec_from_dict, spec_to_dict};
use musterd::dbus::{MANAGER, OBJECT};
use musterd::supervisor::handle::Stdio;
use musterd::supervisor::refused::Refused;
use musterd::worker::{
    Control, Environment, Kind, LeftoversPolicy, Priority, ReplyTo, RestartPolicy, Spec,
    WorktreeChoice,
};
use zbus::{OwnedVariant, Variant};

use crate::fake::Fake;

fn full() -> Spec {
    let mut spec = Spec {
        argv: vec!["agent".into(), OsString::from_vec(vec![b'a', 0xff])],
        name: "n".into(),
        cwd: OsString::from_vec(vec![b'/', 0xfe]).into(),
        env: Environment(vec!["A=b".into()]),
        kind: Kind::Think {
            purpose: "why".into(),
            ctx: Some("c".into()),
            reply_to: Some(ReplyTo {
                node: 1,
                request: 2,
            }),
            extra: "{}".into(),
            reservation: Some(7),
        },
        control: Control::Frames,
        payload: Some("{\"a\":1}".into()),
        worktree: WorktreeChoice::Path("/t".into()),
        uid: Some(5),
        restart: RestartPolicy::OnFailure,
        restart_max: Some(3),
        leftovers: Some(LeftoversPolicy::Wait),
        priority: Priority::Low,
        trace_id: "t1".into(),
        private_tmp: true,
        tty: true,
        ..Spec::default()
    };
    let second = Some(Duration::from_secs(1));
    spec.timeouts.deadline = second;
    spec.timeouts.idle = second;
    spec.timeouts.progress = second;
    spec.timeouts.pong = second;
    spec.limits.memory_max = Some(1 << 30);
    spec.limits.tasks_max = Some(10);
    spec.limits.cpu_weight = Some(50);
    spec.limits.cpu_max_percent = Some(150);
    spec.limits.nice = Some(-5);
    spec.limits.tokens_max = Some(1000);
    spec.ending.stop_signal = Some(2);
    spec.ending.grace = second;
    spec.ending.kill_grace = second;
    spec.ending.stop_hook = vec!["hook".into(), "x".into()];
    spec
}

fn owned(
    dict: HashMap<String, Variant<'static>>,
) -> std::collections::BTreeMap<String, OwnedVariant> {
    dict.into_iter()
        .map(|(key, value)| (key, OwnedVariant::try_from(value).unwrap()))
        .collect()
}

fn stdio() -> Stdio {
    let null = || Some(std::fs::File::open("/dev/null").unwrap().into());
    Stdio {
        stdin: null(),
        stdout: null(),
        stderr: null(),
    }
}

#[test]
fn every_kind_survives_the_dictionary() {
    let kinds = [
        Kind::Command,
        Kind::Subagent { handle: "h".into() },
        Kind::StepTurn {
            run: "r".into(),
            step: "s".into(),
            reservation: None,
        },
        Kind::RootTurn {
            ctx: "c".into(),
            event: Some("e".into()),
            reservation: Some(1),
            msg_depth: 4,
        },
    ];
    for kind in kinds {
        let spec = Spec {
            argv: vec!["x".into()],
            kind,
            ..Spec::default()
        };
        let dict = owned(spec_to_dict(&spec, Stdio::default()));
        assert_eq!(spec_from_dict(dict).unwrap().0, spec);
    }
}

#[test]
fn the_full_spec_uses_every_key_of_the_contract_once() {
    let used = spec_to_dict(&full(), stdio());
    for (key, signature) in SPAWN_KEYS {
        let twin = format!("{key}-bytes");
        let plain = key.strip_suffix("-bytes").unwrap_or(key);
        assert!(
            used.contains_key(*key) || used.contains_key(&twin) || used.contains_key(plain),
            "{key}"
        );
        if let Some(value) = used.get(*key) {
            assert_eq!(value.value_signature().to_string(), *signature, "{key}");
        }
    }
}

#[tokio::test]
async fn every_key_of_a_spawn_reaches_the_supervisor() {
    let fake = Fake::start();
    let client = fake.client().await;
    let spawned = client.spawn(&full(), stdio()).await.unwrap();
    assert_eq!(spawned.id, "0000000a");
    assert_eq!(spawned.object, "/org/muster1/worker/0000000a");
    assert_eq!(spawned.unenforced, ["memory-max"]);
    assert!(spawned.durable);
    let (spec, io) = fake.seen.lock().unwrap().spec.take().unwrap();
    assert_eq!(spec, full());
    assert!(io.stdin.is_some() && io.stdout.is_some() && io.stderr.is_some());
}

#[tokio::test]
async fn the_caller_is_who_the_socket_says() {
    let fake = Fake::start();
    fake.client().await.get_worker("x").await.unwrap();
    let caller = fake.seen.lock().unwrap().callers[0].clone();
    assert_eq!(caller.uid, nix::unistd::getuid().as_raw());
    assert_eq!(caller.gid, nix::unistd::getgid().as_raw());
    assert!(caller.rights.is_empty());
}

async fn spawn_error(fake: &Fake, dict: HashMap<&str, Variant<'_>>) -> (Code, String) {
    let client = fake.client().await;
    let error = client
        .connection()
        .call_method(None::<&str>, OBJECT, Some(MANAGER), "Spawn", &(dict,))
        .await
        .unwrap_err();
    match error {
        zbus::Error::FDO(error) => {
            use zbus::DBusError;
            (
                Code::from_name(error.name().as_str()),
                error.description().unwrap_or("").to_owned(),
            )
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_wrong_key_type_or_value_is_named_and_nothing_is_started() {
    let fake = Fake::start();
    let argv = || Variant::from(vec!["x"]);
    let bytes = || Variant::from(vec![b"x".to_vec()]);
    let cases: Vec<(HashMap<&str, Variant<'_>>, &[&str])> = vec![
        (HashMap::from([("agrv", argv())]), &["agrv", "argv"]),
        (
            HashMap::from([("argv", 5_u32.into())]),
            &["argv", "as", "u"],
        ),
        (
            HashMap::from([("argv", argv()), ("argv-bytes", bytes())]),
            &["argv-bytes"],
        ),
        (
            HashMap::from([("argv", argv()), ("control", "smoke".into())]),
            &["control", "frames"],
        ),
        (
            HashMap::from([("argv", argv()), ("kind", "subagent".into())]),
            &["kind-fields", "handle"],
        ),
        (
            HashMap::from([
                ("argv", argv()),
                (
                    "kind-fields",
                    HashMap::from([("zzz", Variant::from(1_u64))]).into(),
                ),
            ]),
            &["kind-fields", "zzz"],
        ),
        (
            HashMap::from([("argv", argv()), ("nice", 5_i64.into())]),
            &["nice", "i"],
        ),
    ];
    for (dict, words) in cases {
        let (code, message) = spawn_error(&fake, dict).await;
        assert_eq!(code, Code::InvalidArgs, "{message}");
        for word in words {
            assert!(message.contains(word), "{word}: {message}");
        }
    }
    assert!(fake.asked().is_empty());
}

#[test]
fn zero_is_no_limit_but_a_nice_value() {
    let dict = owned(HashMap::from([
        ("memory-max".to_owned(), 0_u64.into()),
        ("deadline-usec".to_owned(), 0_u64.into()),
        ("nice".to_owned(), 0_i32.into()),
        ("uid".to_owned(), 0_u32.into()),
    ]));
    let (spec, _) = spec_from_dict(dict).unwrap();
    assert_eq!(spec.limits.memory_max, None);
    assert_eq!(spec.timeouts.deadline, None);
    assert_eq!(spec.limits.nice, Some(0));
    assert_eq!(spec.uid, Some(0));
}

#[tokio::test]
async fn a_refusal_comes_back_as_its_code_and_words() {
    let fake = Fake::start();
    let client = fake.client().await;
    let cases = [
        (Refused::Draining, Code::Draining),
        (Refused::TooMany("10 workers".into()), Code::TooMany),
        (Refused::DiskFull("full".into()), Code::DiskFull),
        (Refused::Depth("8 levels".into()), Code::Depth),
        (Refused::MessageDepth("32 hops".into()), Code::MessageDepth),
        (
            Refused::SpawnRate {
                id: crate::fake::id("0000000a"),
                wait: Duration::from_millis(400),
            },
            Code::SpawnRate,
        ),
        (Refused::MemoryPressure("60 %".into()), Code::MemoryPressure),
        (Refused::CpuPressure("95 %".into()), Code::CpuPressure),
        (
            Refused::TokenBudget(crate::fake::id("0000000a")),
            Code::TokenBudget,
        ),
        (
            Refused::AskerEnds(crate::fake::id("0000000a")),
            Code::AskerEnds,
        ),
        (
            Refused::StartFailed {
                id: crate::fake::id("0000000a"),
                errno: 2,
                what: "exec".into(),
                path: "/nope".into(),
            },
            Code::StartFailed,
        ),
        (
            Refused::NameTaken {
                name: "n".into(),
                id: crate::fake::id("0000000a"),
            },
            Code::NameTaken,
        ),
        (Refused::ShuttingDown, Code::ShuttingDown),
    ];
    for (refused, code) in cases {
        let words = refused.to_string();
        fake.seen.lock().unwrap().refuse = Some(refused);
        let error = client.spawn(&full(), Stdio::default()).await.unwrap_err();
        let expected = CallError::Refused {
            code,
            name: code.name().into(),
            message: words,
        };
        assert_eq!(error, expected);
    }
}
