//! May this worker be taken now? PURE (specification section 10).

#![forbid(unsafe_code)]

use super::refused::Refused;

/// What admission looks at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    /// Admission is closed.
    pub draining: bool,
    /// Why the state directory cannot be written, if it cannot.
    pub disk: Option<String>,
    /// Live workers.
    pub workers: u32,
    /// Live workers of this owner.
    pub workers_of_owner: u32,
    /// Rows of this owner.
    pub rows_of_owner: u32,
    /// Depth the new worker would have.
    pub depth: u32,
    /// Message depth the new worker would have.
    pub msg_depth: u32,
}

/// The configured limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Live workers in all.
    pub workers: u32,
    /// Live workers of one owner.
    pub workers_per_owner: u32,
    /// Rows of one owner.
    pub rows_per_owner: u32,
    /// Depth.
    pub depth: u32,
    /// Message depth.
    pub msg_depth: u32,
}

/// `Ok` or the first reason against it.
pub fn admit(load: &Load, caps: &Caps) -> Result<(), Refused> {
    if load.draining {
        return Err(Refused::Draining);
    }
    if let Some(why) = &load.disk {
        return Err(Refused::DiskFull(why.clone()));
    }
    let checks = [
        (
            load.workers >= caps.workers,
            "workers",
            caps.workers,
            "max_workers",
        ),
        (
            load.workers_of_owner >= caps.workers_per_owner,
            "workers of this owner",
            caps.workers_per_owner,
            "max_workers_per_owner",
        ),
        (
            load.rows_of_owner >= caps.rows_per_owner,
            "rows of this owner",
            caps.rows_per_owner,
            "max_rows_per_owner",
        ),
        (
            load.depth > caps.depth,
            "levels of workers",
            caps.depth,
            "max_depth",
        ),
        (
            load.msg_depth > caps.msg_depth,
            "message hops",
            caps.msg_depth,
            "max_message_depth",
        ),
    ];
    for (over, what, cap, key) in checks {
        if over {
            return Err(Refused::TooMany(format!(
                "there may be {cap} {what} (limits.{key})"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Caps = Caps {
        workers: 3,
        workers_per_owner: 2,
        rows_per_owner: 9,
        depth: 4,
        msg_depth: 5,
    };

    #[test]
    fn an_idle_service_takes_a_worker() {
        assert_eq!(admit(&Load::default(), &CAPS), Ok(()));
        let edge = Load {
            workers: 2,
            workers_of_owner: 1,
            depth: 4,
            msg_depth: 5,
            ..Load::default()
        };
        assert_eq!(admit(&edge, &CAPS), Ok(()));
    }

    #[test]
    fn each_limit_refuses_and_names_its_key() {
        for (load, key) in [
            (
                Load {
                    workers: 3,
                    ..Load::default()
                },
                "max_workers",
            ),
            (
                Load {
                    workers_of_owner: 2,
                    ..Load::default()
                },
                "max_workers_per_owner",
            ),
            (
                Load {
                    rows_of_owner: 9,
                    ..Load::default()
                },
                "max_rows_per_owner",
            ),
            (
                Load {
                    depth: 5,
                    ..Load::default()
                },
                "max_depth",
            ),
            (
                Load {
                    msg_depth: 6,
                    ..Load::default()
                },
                "max_message_depth",
            ),
        ] {
            let Err(refused) = admit(&load, &CAPS) else {
                panic!("{key} let it pass")
            };
            assert!(refused.to_string().contains(key), "{refused}");
        }
    }

    #[test]
    fn draining_and_a_sick_disk_come_first() {
        let full = Load {
            disk: Some("no space left".into()),
            workers: 99,
            ..Load::default()
        };
        assert_eq!(
            admit(&full, &CAPS),
            Err(Refused::DiskFull("no space left".into()))
        );
        let draining = Load {
            draining: true,
            ..full
        };
        assert_eq!(admit(&draining, &CAPS), Err(Refused::Draining));
    }
}
