//! `org.freedesktop.LogControl1` as systemctl and busctl use it.

use musterd::config::LogLevel;
use musterd::dbus::errors::Code;
use musterd::dbus::log_control::{LOG_CONTROL, LOG_OBJECT};
use musterd::supervisor::handle::Right;
use musterd::supervisor::refused::Refused;
use zbus::Variant;

use crate::bus::{Bus, good};
use crate::fake::Fake;
use crate::methods::failure;

const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

#[tokio::test]
async fn the_level_is_read_and_set_and_the_rest_only_read() {
    let fake = Fake::start();
    let client = fake.client().await;
    assert_eq!(client.log_level().await.unwrap(), "info");
    client.set_log_level("debug").await.unwrap();
    assert_eq!(*fake.log.0.lock().unwrap(), LogLevel::Debug);
    assert_eq!(client.log_level().await.unwrap(), "debug");
    let all = client.properties(LOG_OBJECT, LOG_CONTROL).await.unwrap();
    let mut names: Vec<&str> = all.keys().map(|key| key.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["LogLevel", "LogTarget", "SyslogIdentifier"]);
    let set = |name: &'static str, value: Variant<'static>| {
        let (client, body) = (client.clone(), (LOG_CONTROL, name, value));
        async move {
            failure(&client, LOG_OBJECT, PROPERTIES, "Set", &body)
                .await
                .0
        }
    };
    for (name, value, code) in [
        ("LogLevel", Variant::from("loud"), Code::InvalidArgs),
        ("LogLevel", Variant::from(7_u32), Code::InvalidArgs),
        ("LogTarget", Variant::from("kmsg"), Code::PropertyReadOnly),
        ("Nothing", Variant::from("x"), Code::UnknownProperty),
    ] {
        assert_eq!(set(name, value).await, code.name(), "{name}");
    }
    let wrong = (musterd::dbus::MANAGER, "Version");
    let (name, _) = failure(&client, LOG_OBJECT, PROPERTIES, "Get", &wrong).await;
    assert_eq!(name, Code::UnknownInterface.name());
}

#[tokio::test]
async fn who_may_not_manage_the_service_does_not_set_the_level() {
    let fake = Fake::start();
    let client = fake.client().await;
    fake.seen.lock().unwrap().refuse = Some(Refused::NeedsRight(Right::ManageService));
    let error = client.set_log_level("debug").await.unwrap_err();
    assert_eq!(error.code(), Some(Code::AccessDenied));
    assert!(error.to_string().contains("org.muster1.manage-service"));
    assert_eq!(*fake.log.0.lock().unwrap(), LogLevel::Info);
}

#[tokio::test]
async fn busctl_finds_it_where_systemctl_looks() {
    let (bus, fake) = (Bus::start(), Fake::start());
    let _link = fake.server.serve_bus(&bus.address).await.unwrap();
    let whom = ["org.muster1", LOG_OBJECT, LOG_CONTROL];
    let get = [&["get-property"], &whom[..], &["LogLevel"]].concat();
    assert_eq!(good(&bus.address, &get).await, "s \"info\"");
    let set = [&["set-property"], &whom[..], &["LogLevel", "s", "debug"]].concat();
    good(&bus.address, &set).await;
    assert_eq!(good(&bus.address, &get).await, "s \"debug\"");
    let shown = good(&bus.address, &["introspect", "org.muster1", LOG_OBJECT]).await;
    assert!(
        shown.contains(".LogLevel") && shown.contains("writable"),
        "{shown}"
    );
    let tree = good(&bus.address, &["tree", "--list", "org.muster1"]).await;
    assert!(tree.contains(LOG_OBJECT), "{tree}");
}
