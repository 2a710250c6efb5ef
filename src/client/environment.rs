//! What environment a worker gets from `run`: the caller's less what belongs to the caller's own
//! service or worker, or a login's (section 13).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use super::exit::Failure;

/// Variables that would make a worker believe it is the caller.
const OWN: &[&[u8]] = &[
    b"NOTIFY_",
    b"LISTEN_",
    b"WATCHDOG_",
    b"MUSTER_",
    b"MUSTERD_",
];

/// PATH of a login without one, as login(1) and systemd set it.
const LOGIN_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
const LOGIN_PATH_ROOT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// May a variable of this name be passed on?
pub fn passed_on(name: &OsStr) -> bool {
    let name = name.as_bytes();
    // A name with a newline or an empty one is no variable a program could have meant.
    !name.is_empty() && !OWN.iter().any(|prefix| name.starts_with(prefix))
}

/// Who a login's environment is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Uid.
    pub uid: u32,
    /// Name, empty where passwd knows none.
    pub name: String,
    /// Home directory.
    pub home: OsString,
    /// Shell.
    pub shell: OsString,
}

/// A login's environment; `LANG` is the caller's.
pub fn login(who: &Login, lang: Option<OsString>) -> BTreeMap<OsString, OsString> {
    let path = if who.uid == 0 {
        LOGIN_PATH_ROOT
    } else {
        LOGIN_PATH
    };
    let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
    env.insert("PATH".into(), path.into());
    env.insert("HOME".into(), who.home.clone());
    env.insert("SHELL".into(), who.shell.clone());
    if !who.name.is_empty() {
        env.insert("USER".into(), who.name.clone().into());
        env.insert("LOGNAME".into(), who.name.clone().into());
    }
    env.insert("LANG".into(), lang.unwrap_or_else(|| "C.UTF-8".into()));
    env
}

/// The base (the caller's environment or a login's), filtered, with `VAR=VALUE` and `VAR` (the
/// caller's value, where it has one) of `-E` over it. `K=V` pairs sorted by name.
pub fn build(
    base: impl IntoIterator<Item = (OsString, OsString)>,
    added: &[OsString],
    caller: impl Fn(&OsStr) -> Option<OsString>,
) -> Result<Vec<OsString>, Failure> {
    let mut env: BTreeMap<OsString, OsString> = base
        .into_iter()
        .filter(|(name, _)| passed_on(name))
        .collect();
    for pair in added {
        let bytes = pair.as_bytes();
        let (name, value) = match bytes.iter().position(|b| *b == b'=') {
            Some(at) => (
                OsStr::from_bytes(&bytes[..at]).to_owned(),
                Some(OsStr::from_bytes(&bytes[at + 1..]).to_owned()),
            ),
            None => (pair.clone(), caller(pair)),
        };
        if name.is_empty() {
            return Err(Failure::usage(format!(
                "--setenv {pair:?}: the variable's name is empty; write VAR=VALUE or VAR"
            )));
        }
        match value {
            Some(value) => env.insert(name, value),
            None => env.remove(&name),
        };
    }
    Ok(env
        .into_iter()
        .map(|(name, value)| {
            let mut pair = name.into_vec();
            pair.push(b'=');
            pair.extend_from_slice(value.as_bytes());
            OsString::from_vec(pair)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(names: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        names.iter().map(|(k, v)| (k.into(), v.into())).collect()
    }

    #[test]
    fn what_belongs_to_the_callers_service_is_not_passed_on() {
        let base = pairs(&[
            ("PATH", "/bin"),
            ("NOTIFY_SOCKET", "/n"),
            ("LISTEN_FDS", "1"),
            ("LISTEN_PID", "2"),
            ("WATCHDOG_USEC", "3"),
            ("MUSTER_WORKER", "w"),
            ("MUSTERD_STATE_DIR", "/s"),
            ("MUSTERMARK", "kept"),
            ("EMPTY", ""),
        ]);
        assert_eq!(
            build(base, &[], |_| None).unwrap(),
            ["EMPTY=", "MUSTERMARK=kept", "PATH=/bin"]
        );
    }

    #[test]
    fn added_variables_win_and_a_bare_name_takes_the_callers_value() {
        let added: Vec<OsString> = vec![
            "PATH=/opt".into(),
            "A=b=c".into(),
            "NOTIFY_SOCKET".into(),
            "GONE".into(),
            "MUSTER_TEST=1".into(),
        ];
        let caller = |name: &OsStr| (name == "NOTIFY_SOCKET").then(|| OsString::from("/asked/for"));
        assert_eq!(
            build(pairs(&[("PATH", "/bin"), ("GONE", "x")]), &added, caller).unwrap(),
            [
                "A=b=c",
                "MUSTER_TEST=1",
                "NOTIFY_SOCKET=/asked/for",
                "PATH=/opt"
            ]
        );
        assert!(build([], &["=x".into()], |_| None).is_err());
    }

    #[test]
    fn bytes_that_are_no_text_survive() {
        let value = OsString::from_vec(vec![0xff, b'=', 0xfe]);
        let env = build([("X".into(), value)], &[], |_| None).unwrap();
        assert_eq!(env[0].as_bytes(), b"X=\xff=\xfe");
    }

    #[test]
    fn a_login_has_just_a_logins_variables() {
        let who = Login {
            uid: 1000,
            name: "anna".into(),
            home: "/home/anna".into(),
            shell: "/bin/sh".into(),
        };
        let names: Vec<_> = login(&who, None).into_keys().collect();
        assert_eq!(names, ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "USER"]);
        assert_eq!(
            login(&who, Some("de_DE.UTF-8".into()))[OsStr::new("LANG")],
            "de_DE.UTF-8"
        );
    }
}
