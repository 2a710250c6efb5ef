//! The contract as tables: methods with their signatures, properties and how changes of them are
//! told, signals. The XML that is installed and served says the same; tests keep them equal.

use crate::dbus::log_control::LOG_CONTROL;
use crate::dbus::{MANAGER, WORKER};

/// Manager's interface, one installed file.
pub const MANAGER_XML: &str = include_str!("../../packaging/dbus/org.muster1.Manager.xml");
/// A worker's interface, one installed file.
pub const WORKER_XML: &str = include_str!("../../packaging/dbus/org.muster1.Worker.xml");

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// Name.
    pub name: &'static str,
    /// Signature of its arguments.
    pub takes: &'static str,
    /// Signature of its reply.
    pub gives: &'static str,
}

/// How a change of a property is told (`org.freedesktop.DBus.Property.EmitsChangedSignal`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emits {
    /// With its value.
    True,
    /// That it changed, without the value.
    Invalidates,
    /// It never changes.
    Const,
    /// Not at all.
    False,
}

/// A property; ours are all read-only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Property {
    /// Name.
    pub name: &'static str,
    /// Signature.
    pub signature: &'static str,
    /// How a change is told.
    pub emits: Emits,
}

/// An interface.
#[derive(Debug, Clone, Copy)]
pub struct Interface {
    /// Name.
    pub name: &'static str,
    /// Methods.
    pub methods: &'static [Method],
    /// Properties.
    pub properties: &'static [Property],
    /// Signals with their signatures.
    pub signals: &'static [(&'static str, &'static str)],
    /// `<interface>` element for introspection.
    pub xml: &'static str,
}

const fn method(name: &'static str, takes: &'static str, gives: &'static str) -> Method {
    Method { name, takes, gives }
}

const fn property(name: &'static str, signature: &'static str, emits: Emits) -> Property {
    Property {
        name,
        signature,
        emits,
    }
}

use Emits::{Const, False, Invalidates, True};

/// `org.muster1.Manager`.
pub const MANAGER_INTERFACE: Interface = Interface {
    name: MANAGER,
    methods: &[
        method("Spawn", "a{sv}", "soa{sv}"),
        method("Adopt", "ha{sv}", "soa{sv}"),
        method("GetWorker", "s", "o"),
        method("GetWorkerByPID", "u", "o"),
        method("ListWorkers", "a{sv}", "a(sssssuuttoa{sv})"),
        method("Status", "s", "s"),
        method("Cancel", "ssa{sv}", "sa{sv}"),
        method("Wait", "sa{sv}", "sa{sv}"),
        method("Kill", "ssia{sv}", ""),
        method("Freeze", "sa{sv}", ""),
        method("Thaw", "sa{sv}", ""),
        method("Send", "ssa{sv}", ""),
        method("Attend", "sa{sv}", "h"),
        method("Report", "a{sv}", ""),
        method("Reap", "a{sv}", "a{st}a(sssa{sv})"),
        method("Hold", "sba{sv}", ""),
        method("Forget", "sa{sv}", ""),
        method("Restore", "sa{sv}", "o"),
        method("Drain", "sa{sv}", ""),
        method("Resume", "a{sv}", ""),
        method("Reload", "a{sv}", "t"),
        method("GetMetrics", "", "s"),
    ],
    properties: &[
        property("Version", "s", Const),
        property("Generation", "t", True),
        property("State", "s", True),
        property("Containment", "s", True),
        property("Degraded", "as", True),
        property("NWorkers", "u", True),
        property("NRows", "u", True),
        property("NQuarantined", "u", True),
        property("GraceUSec", "t", True),
        property("StartTimestamp", "t", True),
        property("LastReapTimestamp", "t", True),
    ],
    signals: &[
        ("WorkerNew", "so"),
        ("WorkerExited", "sosa{sv}"),
        ("WorkerRemoved", "sos"),
        ("Reaped", "a{st}as"),
    ],
    xml: MANAGER_XML,
};

/// `org.muster1.Worker`.
pub const WORKER_INTERFACE: Interface = Interface {
    name: WORKER,
    methods: &[
        method("Cancel", "sa{sv}", "sa{sv}"),
        method("Kill", "sia{sv}", ""),
        method("Send", "sa{sv}", ""),
    ],
    properties: &[
        property("Id", "s", Const),
        property("Name", "s", Const),
        property("Kind", "s", Const),
        property("KindType", "s", Const),
        property("KindFields", "a{sv}", Const),
        property("Node", "t", True),
        property("Status", "s", True),
        property("Health", "s", True),
        property("StatusText", "s", Invalidates),
        property("Owner", "u", Const),
        property("PID", "u", True),
        property("Parent", "s", Const),
        property("Depth", "u", Const),
        property("TraceId", "s", Const),
        property("CommandLine", "as", Const),
        property("WorkingDirectory", "s", Const),
        property("Worktree", "s", Invalidates),
        property("ControlGroup", "s", True),
        property("CreatedTimestamp", "t", Const),
        property("StartedTimestamp", "t", True),
        property("ExitedTimestamp", "t", True),
        property("DeadlineTimestamp", "t", True),
        property("Outcome", "s", True),
        property("HowKnown", "s", True),
        property("ExitCode", "i", True),
        property("ExitSignal", "i", True),
        property("Rung", "s", True),
        property("NextRungTimestamp", "t", True),
        property("Unkillable", "b", True),
        property("OOMKilled", "b", True),
        property("Cancelled", "b", True),
        property("CancelReason", "s", Invalidates),
        property("CancelledBy", "u", True),
        property("Settled", "b", True),
        property("Held", "b", True),
        property("Attended", "b", True),
        property("InputTokens", "t", Invalidates),
        property("OutputTokens", "t", Invalidates),
        property("Restarts", "u", True),
        property("Reservation", "t", True),
        property("Leftovers", "as", Invalidates),
        property("Unenforced", "as", True),
        property("OutputDropped", "t", False),
        property("CPUUsageNSec", "t", False),
        property("MemoryCurrent", "t", False),
        property("MemoryPeak", "t", False),
        property("TasksCurrent", "u", False),
    ],
    signals: &[],
    xml: WORKER_XML,
};

/// `org.freedesktop.LogControl1`; LogLevel can be written.
pub const LOG_CONTROL_INTERFACE: Interface = Interface {
    name: LOG_CONTROL,
    methods: &[],
    properties: &[
        property("LogLevel", "s", False),
        property("LogTarget", "s", False),
        property("SyslogIdentifier", "s", False),
    ],
    signals: &[],
    xml: r#" <interface name="org.freedesktop.LogControl1">
  <property name="LogLevel" type="s" access="readwrite"><annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="false"/></property>
  <property name="LogTarget" type="s" access="read"><annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="false"/></property>
  <property name="SyslogIdentifier" type="s" access="read"><annotation name="org.freedesktop.DBus.Property.EmitsChangedSignal" value="false"/></property>
 </interface>
"#,
};

/// `org.freedesktop.DBus.Properties`.
pub const PROPERTIES_INTERFACE: Interface = Interface {
    name: "org.freedesktop.DBus.Properties",
    methods: &[
        method("Get", "ss", "v"),
        method("GetAll", "s", "a{sv}"),
        method("Set", "ssv", ""),
    ],
    properties: &[],
    signals: &[("PropertiesChanged", "sa{sv}as")],
    xml: r#" <interface name="org.freedesktop.DBus.Properties">
  <method name="Get"><arg name="interface_name" type="s" direction="in"/><arg name="property_name" type="s" direction="in"/><arg name="value" type="v" direction="out"/></method>
  <method name="GetAll"><arg name="interface_name" type="s" direction="in"/><arg name="props" type="a{sv}" direction="out"/></method>
  <method name="Set"><arg name="interface_name" type="s" direction="in"/><arg name="property_name" type="s" direction="in"/><arg name="value" type="v" direction="in"/></method>
  <signal name="PropertiesChanged"><arg name="interface_name" type="s"/><arg name="changed_properties" type="a{sv}"/><arg name="invalidated_properties" type="as"/></signal>
 </interface>
"#,
};

/// `org.freedesktop.DBus.Introspectable`.
pub const INTROSPECTABLE_INTERFACE: Interface = Interface {
    name: "org.freedesktop.DBus.Introspectable",
    methods: &[method("Introspect", "", "s")],
    properties: &[],
    signals: &[],
    xml: r#" <interface name="org.freedesktop.DBus.Introspectable">
  <method name="Introspect"><arg name="xml_data" type="s" direction="out"/></method>
 </interface>
"#,
};

/// `org.freedesktop.DBus.Peer`.
pub const PEER_INTERFACE: Interface = Interface {
    name: "org.freedesktop.DBus.Peer",
    methods: &[method("Ping", "", ""), method("GetMachineId", "", "s")],
    properties: &[],
    signals: &[],
    xml: r#" <interface name="org.freedesktop.DBus.Peer">
  <method name="Ping"/>
  <method name="GetMachineId"><arg name="machine_uuid" type="s" direction="out"/></method>
 </interface>
"#,
};

impl Interface {
    /// The `<interface>` element of its XML.
    pub fn element(&self) -> &'static str {
        let start = self.xml.find("<interface").unwrap_or(0);
        let end = self
            .xml
            .find("</interface>")
            .map_or(self.xml.len(), |at| at + "</interface>".len());
        self.xml.get(start..end).unwrap_or("")
    }
}
