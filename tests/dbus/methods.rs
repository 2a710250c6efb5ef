//! Every method of the contract over a socket.

use std::collections::{BTreeMap, HashMap};

use musterd::dbus::client::{CallError, Client};
use musterd::dbus::contract::{Interface, MANAGER_INTERFACE, WORKER_INTERFACE};
use musterd::dbus::errors::Code;
use musterd::dbus::{MANAGER, OBJECT, WORKER};
use musterd::supervisor::adopt::Adoption;
use musterd::supervisor::handle::{
    CancelOptions, DrainOptions, ListFilter, ReapOptions, Right, Whom,
};
use musterd::supervisor::refused::Refused;
use musterd::supervisor::report::Facts;
use musterd::worker::{Kind, Status, WorktreeChoice};
use zbus::Variant;

use crate::fake::{Fake, roll, until};

const A: &str = "0000000a";
const A_PATH: &str = "/org/muster1/worker/0000000a";

/// Error name and text of a raw call.
pub async fn failure<B>(
    client: &Client,
    path: &str,
    interface: &str,
    member: &str,
    body: &B,
) -> (String, String)
where
    B: serde::Serialize + zbus::DynamicType,
{
    let result = client
        .connection()
        .call_method(None::<&str>, path, Some(interface), member, body)
        .await;
    match result {
        Err(zbus::Error::FDO(error)) => {
            use zbus::DBusError;
            let text = error.description().unwrap_or("").to_owned();
            (error.name().to_string(), text)
        }
        Err(zbus::Error::MethodError(name, text, _)) => {
            (name.to_string(), text.unwrap_or_default())
        }
        other => panic!("{member}: {other:?}"),
    }
}

#[tokio::test]
async fn a_wrong_signature_of_any_method_is_invalid_args_and_names_the_right_one() {
    let fake = Fake::start();
    let client = fake.client().await;
    let check = |interface: &'static Interface, path: &'static str| {
        let client = client.clone();
        async move {
            for method in interface.methods {
                let wrong = (1_u8, "x");
                let (name, text) =
                    failure(&client, path, interface.name, method.name, &wrong).await;
                assert_eq!(name, Code::InvalidArgs.name(), "{}", method.name);
                assert!(text.contains(method.takes), "{}: {text}", method.name);
            }
        }
    };
    check(&MANAGER_INTERFACE, OBJECT).await;
    check(&WORKER_INTERFACE, A_PATH).await;
    assert!(fake.asked().is_empty());
}

#[tokio::test]
async fn what_does_not_exist_has_its_own_error() {
    let fake = Fake::start();
    let c = fake.client().await;
    let cases = [
        ("/org/nothing", MANAGER, "Status", Code::UnknownObject),
        (
            OBJECT,
            "org.example.Other",
            "Status",
            Code::UnknownInterface,
        ),
        (OBJECT, MANAGER, "Explode", Code::UnknownMethod),
        (OBJECT, WORKER, "Cancel", Code::UnknownInterface),
        (A_PATH, MANAGER, "Status", Code::UnknownInterface),
        ("/org", MANAGER, "Status", Code::UnknownInterface),
    ];
    for (path, interface, member, code) in cases {
        let (name, _) = failure(&c, path, interface, member, &("x",)).await;
        assert_eq!(name, code.name(), "{path} {interface} {member}");
    }
}

#[tokio::test]
async fn an_unknown_option_is_named_by_every_method_that_takes_options() {
    let fake = Fake::start();
    let c = fake.client().await;
    let o = || HashMap::from([("bogus", Variant::from(true))]);
    let bad = [
        failure(&c, OBJECT, MANAGER, "ListWorkers", &(o(),)).await,
        failure(&c, OBJECT, MANAGER, "Cancel", &(A, "why", o())).await,
        failure(&c, OBJECT, MANAGER, "Wait", &(A, o())).await,
        failure(&c, OBJECT, MANAGER, "Kill", &(A, "all", 9_i32, o())).await,
        failure(&c, OBJECT, MANAGER, "Send", &(A, "{}", o())).await,
        failure(&c, OBJECT, MANAGER, "Freeze", &(A, o())).await,
        failure(&c, OBJECT, MANAGER, "Thaw", &(A, o())).await,
        failure(&c, OBJECT, MANAGER, "Reap", &(o(),)).await,
        failure(&c, OBJECT, MANAGER, "Hold", &(A, true, o())).await,
        failure(&c, OBJECT, MANAGER, "Forget", &(A, o())).await,
        failure(&c, OBJECT, MANAGER, "Restore", &(A, o())).await,
        failure(&c, OBJECT, MANAGER, "Drain", &("why", o())).await,
        failure(&c, OBJECT, MANAGER, "Resume", &(o(),)).await,
        failure(&c, A_PATH, WORKER, "Cancel", &("why", o())).await,
        failure(&c, A_PATH, WORKER, "Kill", &("all", 9_i32, o())).await,
        failure(&c, A_PATH, WORKER, "Send", &("{}", o())).await,
    ];
    for (name, text) in bad {
        assert_eq!(name, Code::InvalidArgs.name());
        assert!(text.contains("bogus"), "{text}");
    }
    assert!(fake.asked().is_empty());
}

#[tokio::test]
async fn bad_values_are_refused_before_anything_is_asked() {
    let fake = Fake::start();
    let c = fake.client().await;
    let none = HashMap::<&str, Variant<'_>>::new;
    let status = HashMap::from([("status", Variant::from(vec!["alive"]))]);
    let after = HashMap::from([("after", Variant::from("!"))]);
    let bad = [
        failure(&c, OBJECT, MANAGER, "Kill", &(A, "some", 9_i32, none())).await,
        failure(&c, OBJECT, MANAGER, "Kill", &(A, "all", 0_i32, none())).await,
        failure(&c, OBJECT, MANAGER, "Kill", &(A, "all", -1_i32, none())).await,
        failure(&c, OBJECT, MANAGER, "GetWorkerByPID", &(1_u32,)).await,
        failure(&c, OBJECT, MANAGER, "GetWorkerByPID", &(u32::MAX,)).await,
        failure(&c, OBJECT, MANAGER, "ListWorkers", &(status,)).await,
        failure(&c, OBJECT, MANAGER, "ListWorkers", &(after,)).await,
    ];
    for (name, text) in bad {
        assert_eq!(name, Code::InvalidArgs.name(), "{text}");
    }
    assert!(fake.asked().is_empty());
}

#[tokio::test]
async fn metrics_are_openmetrics_text() {
    let fake = Fake::start();
    let text = fake.client().await.metrics().await.unwrap();
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let mut family = "";
    for line in text.lines() {
        match line.strip_prefix("# TYPE ") {
            Some(rest) => family = rest.split(' ').next().unwrap(),
            None if line.starts_with('#') => {
                let about = line.split(' ').nth(2);
                assert!(about.is_none_or(|about| about == family), "{line}");
            }
            None => assert!(line.starts_with(family), "{line} is in {family}"),
        }
    }
}

#[tokio::test]
async fn a_report_is_the_callers_own_workers_and_bad_ones_are_refused_here() {
    let fake = Fake::start();
    let c = fake.client().await;
    let facts = Facts {
        input: 7,
        status: Some("busy".into()),
        ..Facts::default()
    };
    c.report(&facts).await.unwrap();
    let asked = fake.asked();
    assert_eq!(
        asked,
        ["inside".to_owned(), format!("report {A} {facts:?}")]
    );
    let mut both = HashMap::from([("turn-done", Variant::from(true))]);
    both.insert("failed", Variant::from("why"));
    let none = HashMap::<&str, Variant<'_>>::new();
    for facts in [
        both,
        none,
        HashMap::from([("tokens", Variant::from(1_u64))]),
    ] {
        let (name, text) = failure(&c, OBJECT, MANAGER, "Report", &(facts,)).await;
        assert_eq!(name, Code::InvalidArgs.name(), "{text}");
    }
    assert_eq!(fake.asked().len(), 2);
    fake.seen.lock().unwrap().refuse = Some(Refused::NotInside);
    let error = c.report(&facts).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NoSuchWorker));
}

#[tokio::test]
async fn descriptors_come_in_by_adopt_and_go_out_by_attend() {
    use std::os::fd::AsFd;
    let fake = Fake::start();
    let c = fake.client().await;
    let how = Adoption {
        name: "n".into(),
        kind: Kind::Subagent { handle: "h".into() },
        worktree: WorktreeChoice::Path("/w".into()),
    };
    let null = std::fs::File::open("/dev/null").unwrap();
    let adopted = c.adopt(null.as_fd(), &how).await.unwrap();
    assert_eq!((adopted.id.as_str(), adopted.durable), (A, true));
    let fd = c.attend(A).await.unwrap();
    rustix::io::fcntl_getfd(&fd).unwrap();
    assert_eq!(
        fake.asked(),
        [format!("adopt {how:?}"), format!("attend {A}")]
    );
    let relative = HashMap::from([("worktree", Variant::from("here"))]);
    let (name, _) = failure(
        &c,
        OBJECT,
        MANAGER,
        "Adopt",
        &(zbus::Fd::from(&null), relative),
    )
    .await;
    assert_eq!(name, Code::InvalidArgs.name());
}

#[tokio::test]
async fn each_method_asks_the_supervisor_and_converts_its_answer() {
    let fake = Fake::start();
    let c = fake.client().await;
    assert_eq!(c.get_worker("web").await.unwrap(), A_PATH);
    assert_eq!(c.resolve("web").await.unwrap(), A);
    assert_eq!(c.get_worker_by_pid(77).await.unwrap(), A_PATH);
    let options = CancelOptions {
        now: true,
        keep_descendants: true,
    };
    let cancelled = c.cancel(A, "why", options).await.unwrap();
    assert_eq!(cancelled.state, "begun");
    assert!(cancelled.durable);
    assert_eq!(cancelled.descendants, ["0000000b"]);
    let waited = c.wait(A).await.unwrap();
    assert_eq!(
        (waited.outcome.as_str(), waited.exit_signal),
        ("crashed", Some(9))
    );
    assert_eq!((waited.rung.as_str(), waited.took_usec), ("kill", Some(55)));
    assert_eq!(
        (waited.processes, waited.oom_killed, waited.settled),
        (3, true, true)
    );
    assert_eq!(
        (waited.leftovers.len(), waited.how_known.as_str()),
        (1, "waited")
    );
    c.kill(A, Whom::Group, 15).await.unwrap();
    c.send(A, "{\"type\":\"pause\"}").await.unwrap();
    c.freeze(A, true).await.unwrap();
    c.freeze(A, false).await.unwrap();
    c.hold(A, true).await.unwrap();
    c.forget(A, true).await.unwrap();
    assert_eq!(c.restore(A).await.unwrap(), A);
    let options = ReapOptions {
        dry_run: true,
        grace: Some(std::time::Duration::ZERO),
        workers: vec!["w".into()],
        limit: 3,
        after: Some(A.parse().unwrap()),
    };
    let reaped = c.reap(&options).await.unwrap();
    assert_eq!(
        reaped.counts,
        BTreeMap::from([("keep".into(), 1), ("reap".into(), 0)])
    );
    let row = &reaped.rows[0];
    assert_eq!(
        (row.action.as_str(), row.reason.as_str()),
        ("keep", "within-grace")
    );
    assert_eq!(
        (row.seconds_left, row.since, row.detail.as_str()),
        (Some(-3), Some(4), "d")
    );
    let last = DrainOptions {
        wait: true,
        exit: true,
    };
    c.drain("disk", last).await.unwrap();
    c.drain("", DrainOptions::default()).await.unwrap();
    c.resume().await.unwrap();
    let asked = fake.asked();
    for note in [
        "resolve web".to_owned(),
        "pid 77".to_owned(),
        format!("cancel {A} why CancelOptions {{ now: true, keep_descendants: true }}"),
        format!("kill {A} Group 15"),
        format!("freeze {A} true"),
        format!("freeze {A} false"),
        format!("hold {A} true"),
        format!("forget {A} true"),
        format!("restore {A}"),
        "drain disk DrainOptions { wait: true, exit: true }".to_owned(),
        "drain  DrainOptions { wait: false, exit: false }".to_owned(),
        "resume".to_owned(),
        format!("reap {options:?}"),
    ] {
        assert!(asked.contains(&note), "{note}: {asked:?}");
    }
}

#[tokio::test]
async fn a_long_list_comes_in_pages_and_whole() {
    let fake = Fake::start();
    let c = fake.client().await;
    let filter = ListFilter {
        all: true,
        owner: Some(7),
        status: vec![Status::Exited],
        kind: Some("subagent".into()),
        after: None,
        limit: 900,
    };
    let rows = c.list(filter).await.unwrap();
    let ids: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
    let all: Vec<_> = roll().iter().map(ToString::to_string).collect();
    assert_eq!(ids, all);
    let row = &rows[0];
    assert_eq!((row.status.as_str(), row.health.as_str()), ("exited", ""));
    assert_eq!(
        (row.uid, row.pid, row.created, row.tokens),
        (7, 0, 1_000_001, 15)
    );
    assert_eq!((row.argv.len(), row.cwd.as_str()), (2, "/home/x"));
    assert_eq!(
        (row.exited, row.exit_signal, row.held),
        (Some(1_000_003), Some(9), true)
    );
    assert!(fake.asked()[0].contains("limit: 900"));
}

#[tokio::test]
async fn status_is_json_of_one_worker_or_of_the_whole() {
    let fake = Fake::start();
    let c = fake.client().await;
    let one = c.status(A).await.unwrap();
    assert_eq!(one["id"], A);
    assert_eq!(one["exit"]["signal"], 9);
    let whole = c.status("").await.unwrap();
    assert_eq!(whole["service"]["version"], "1.2.3");
    assert_eq!(whole["workers"].as_array().unwrap().len(), 1000);
}

#[tokio::test]
async fn properties_have_the_contracts_types_and_cannot_be_set() {
    let fake = Fake::start();
    let c = fake.client().await;
    for (path, interface) in [(OBJECT, &MANAGER_INTERFACE), (A_PATH, &WORKER_INTERFACE)] {
        let all = c.properties(path, interface.name).await.unwrap();
        assert_eq!(all.len(), interface.properties.len());
        for property in interface.properties {
            let value = &all[property.name];
            assert_eq!(
                value.value_signature().to_string(),
                property.signature,
                "{property:?}"
            );
            let set = (interface.name, property.name, Variant::from(1_u8));
            let (name, _) = failure(&c, path, "org.freedesktop.DBus.Properties", "Set", &set).await;
            assert_eq!(name, Code::PropertyReadOnly.name());
        }
    }
    let get = (WORKER, "Nonsense");
    let (name, _) = failure(&c, A_PATH, "org.freedesktop.DBus.Properties", "Get", &get).await;
    assert_eq!(name, Code::UnknownProperty.name());
    assert_eq!(c.service().await.unwrap().n_rows, 3);
}

#[tokio::test]
async fn a_worker_that_is_not_there_is_no_such_worker() {
    let fake = Fake::start();
    let c = fake.client().await;
    let error = c.get_worker("missing").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::NoSuchWorker));
    let CallError::Refused { message, .. } = error else {
        panic!()
    };
    assert!(message.contains("missing"));
}

#[tokio::test]
async fn a_right_nobody_grants_is_access_denied_and_names_the_action() {
    let fake = Fake::start();
    let c = fake.client().await;
    fake.seen.lock().unwrap().refuse = Some(Refused::NeedsRight(Right::ManageAll));
    let error = c.hold(A, true).await.unwrap_err();
    assert_eq!(error.code(), Some(Code::AccessDenied));
    assert!(error.to_string().contains("org.muster1.manage-all"));
}

#[tokio::test]
async fn a_slow_call_holds_up_no_other() {
    let fake = Fake::start();
    let c = fake.client().await;
    fake.seen.lock().unwrap().hold_back = true;
    let slow = tokio::spawn({
        let c = c.clone();
        async move { c.wait(A).await }
    });
    until(|| !fake.seen.lock().unwrap().kept.is_empty()).await;
    fake.seen.lock().unwrap().hold_back = false;
    c.get_worker("x").await.unwrap();
    assert!(!slow.is_finished());
    assert_eq!(fake.server.open_calls(), 1);
    slow.abort();
}

#[tokio::test]
async fn a_wait_ends_with_its_connection_and_other_calls_are_carried_out() {
    let fake = Fake::start();
    fake.seen.lock().unwrap().hold_back = true;
    let c = fake.client().await;
    let other = c.clone();
    let calls = tokio::spawn(async move { tokio::join!(other.wait(A), other.hold(A, true)) });
    until(|| fake.seen.lock().unwrap().kept.len() == 2).await;
    calls.abort();
    let _ = calls.await;
    drop(c);
    until(|| fake.server.connections() == 0).await;
    until(|| fake.server.open_calls() == 1).await;
    fake.seen.lock().unwrap().kept.clear();
    until(|| fake.server.open_calls() == 0).await;
}
