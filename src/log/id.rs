//! `MESSAGE_ID` of every event an operator acts on; the catalog file describes each.

/// The daemon serves.
pub const STARTED: &str = "37dcb7ffcf58457ca871078529985bd0";
/// The daemon is on its way out.
pub const STOPPING: &str = "ca0b16f79bf343148177d8ca0216d3ca";
/// A worker's program was executed.
pub const WORKER_STARTED: &str = "69874f2f913f421689b5351bbce7a931";
/// A worker ended for good.
pub const WORKER_EXITED: &str = "a4b2eb60858c426892e8f9da76d3bb83";
/// A worker's program could not be started.
pub const START_FAILED: &str = "d2c623fbac42486e9a2f34032dc368c6";
/// A worker is being ended.
pub const LADDER_BEGUN: &str = "945c4772e9dd4c18b6dee7d41d7c12f6";
/// A worker outlived SIGKILL.
pub const UNKILLABLE: &str = "c21c8cebe175418fa572d2f769897eb8";
/// What a leader had left running was ended.
pub const LEFTOVERS_ENDED: &str = "a9dba09096c843e382306b6334f174cd";
/// A row left the roll; it can be restored for a while.
pub const ROW_REAPED: &str = "8e592fc816854d1198922ac0b4a912ac";
/// A file was no row and was moved aside.
pub const ROW_QUARANTINED: &str = "c7ba731694e44d5c89543acafbb0be8b";
/// The state directory cannot be written.
pub const STATE_DEGRADED: &str = "b6d472cd73c2469e993776a8f5e8afdf";
/// The state directory can be written again; everything is.
pub const STATE_RECOVERED: &str = "fc09155d7f9c4007be3dbc4d1a08e863";
/// The wall clock jumped.
pub const CLOCK_JUMPED: &str = "db8dab8a1bcc4261ab430e16b22e5282";
/// A row claimed life, and its process had gone.
pub const FOUND_DEAD: &str = "8e1c6aa256724b6fb2eb86a40ea307cb";
/// No cgroup holds the workers' processes together here.
pub const CONTAINMENT_WEAK: &str = "f95f5fc45ff443999a4a3d3d4a4dfb1b";
/// The level of the log was changed by a call.
pub const LOG_LEVEL: &str = "fb09a5aae10d43738fc11099b319680c";
/// Admission was closed by a call; until Resume no new worker is taken.
pub const DRAINING: &str = "1975dae64f204a449b7bfb09e9b6ff38";
/// Admission is open again.
pub const RESUMED: &str = "136d6c3e33f84f02b8570bc810458cf8";
/// A worker's output goes to a file, since the journal did not take it.
pub const OUTPUT_TO_FILE: &str = "d405dd161e334a28bfea89d31840d34b";
/// A generation of a worker ended and another will follow.
pub const WORKER_RESTARTS: &str = "0bc058c89d444f19a009bcaf4f1a40af";
/// The image was replaced in place.
pub const RELOADED: &str = "4a6c56653f054873aebd0ab5fcfc4f49";
/// A reload was refused; the image before serves on.
pub const RELOAD_REFUSED: &str = "2b1ecf159ef0489cb60449a488ff669a";

/// Every id with its name, for the test that keeps the catalog file complete.
pub const ALL: &[(&str, &str)] = &[
    ("STARTED", STARTED),
    ("STOPPING", STOPPING),
    ("WORKER_STARTED", WORKER_STARTED),
    ("WORKER_EXITED", WORKER_EXITED),
    ("START_FAILED", START_FAILED),
    ("LADDER_BEGUN", LADDER_BEGUN),
    ("UNKILLABLE", UNKILLABLE),
    ("LEFTOVERS_ENDED", LEFTOVERS_ENDED),
    ("ROW_REAPED", ROW_REAPED),
    ("ROW_QUARANTINED", ROW_QUARANTINED),
    ("STATE_DEGRADED", STATE_DEGRADED),
    ("STATE_RECOVERED", STATE_RECOVERED),
    ("CLOCK_JUMPED", CLOCK_JUMPED),
    ("FOUND_DEAD", FOUND_DEAD),
    ("CONTAINMENT_WEAK", CONTAINMENT_WEAK),
    ("LOG_LEVEL", LOG_LEVEL),
    ("DRAINING", DRAINING),
    ("RESUMED", RESUMED),
    ("OUTPUT_TO_FILE", OUTPUT_TO_FILE),
    ("WORKER_RESTARTS", WORKER_RESTARTS),
    ("RELOADED", RELOADED),
    ("RELOAD_REFUSED", RELOAD_REFUSED),
];
