//! Dictionaries of the contract: an unknown key and a value of another type are errors that name
//! the key and what is right.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use zbus::{Fd, OwnedVariant, Variant};

use super::errors::Failure;
use crate::worker::WorkerId;

/// A dictionary to be sent.
pub type Details = BTreeMap<&'static str, Variant<'static>>;
/// A dictionary that came in.
pub type Received = BTreeMap<String, OwnedVariant>;
/// The keys of a dictionary with the signature of each.
pub type Keys = &'static [(&'static str, &'static str)];

/// A dictionary without keys of its own yet.
pub const NO_KEYS: Keys = &[];

/// A dictionary whose keys and types have been checked; values are taken out one by one.
#[derive(Debug)]
pub struct Dict {
    what: &'static str,
    left: Received,
}

impl Dict {
    /// Checks every key and type. `what` is the method, for the error.
    pub fn checked(what: &'static str, dict: Received, keys: Keys) -> Result<Self, Failure> {
        for (key, value) in &dict {
            let Some((_, signature)) = keys.iter().find(|(known, _)| known == key) else {
                return Err(unknown_key(what, key, keys));
            };
            let found = value.value_signature().to_string();
            if found != *signature {
                return Err(Failure::invalid(format!(
                    "{what}: the key {key:?} is of type {signature:?}, not {found:?}"
                )));
            }
        }
        Ok(Self { what, left: dict })
    }

    /// The value of `key`, if it was given.
    pub fn take<T: TryFrom<OwnedVariant>>(&mut self, key: &str) -> Result<Option<T>, Failure> {
        let Some(value) = self.left.remove(key) else {
            return Ok(None);
        };
        T::try_from(value)
            .map(Some)
            .map_err(|_| self.bad(key, "cannot be read"))
    }

    /// A word of a fixed set.
    pub fn word<T: std::str::FromStr<Err = String>>(
        &mut self,
        key: &str,
    ) -> Result<Option<T>, Failure> {
        self.take::<String>(key)?
            .map(|word| word.parse().map_err(|why: String| self.bad(key, &why)))
            .transpose()
    }

    /// A length of time; 0 is none.
    pub fn usec(&mut self, key: &str) -> Result<Option<Duration>, Failure> {
        Ok(self.number(key)?.map(Duration::from_micros))
    }

    /// A number; 0 is none.
    pub fn number(&mut self, key: &str) -> Result<Option<u64>, Failure> {
        Ok(self.take::<u64>(key)?.filter(|n| *n != 0))
    }

    /// Text, or its `-bytes` twin.
    pub fn text(&mut self, key: &str) -> Result<Option<OsString>, Failure> {
        let twin = format!("{key}-bytes");
        self.not_both(key, &twin)?;
        if let Some(bytes) = self.take::<Vec<u8>>(&twin)? {
            return Ok(Some(OsString::from_vec(bytes)));
        }
        Ok(self.take::<String>(key)?.map(OsString::from))
    }

    /// A list of texts, or its `-bytes` twin.
    pub fn texts(&mut self, key: &str) -> Result<Option<Vec<OsString>>, Failure> {
        let twin = format!("{key}-bytes");
        self.not_both(key, &twin)?;
        if let Some(list) = self.take::<Vec<Vec<u8>>>(&twin)? {
            return Ok(Some(list.into_iter().map(OsString::from_vec).collect()));
        }
        let list = self.take::<Vec<String>>(key)?;
        Ok(list.map(|list| list.into_iter().map(OsString::from).collect()))
    }

    fn not_both(&self, key: &str, twin: &str) -> Result<(), Failure> {
        if self.left.contains_key(key) && self.left.contains_key(twin) {
            return Err(self.bad(key, &format!("was given together with {twin:?}; give one")));
        }
        Ok(())
    }

    /// An id; empty text is none.
    pub fn id(&mut self, key: &str) -> Result<Option<WorkerId>, Failure> {
        let text = self.take::<String>(key)?.filter(|t| !t.is_empty());
        text.map(|t| t.parse().map_err(|e| self.bad(key, &format!("{e}"))))
            .transpose()
    }

    /// A descriptor of our own.
    pub fn fd(&mut self, key: &str) -> Result<Option<std::os::fd::OwnedFd>, Failure> {
        let Some(value) = self.left.remove(key) else {
            return Ok(None);
        };
        Fd::try_from(value)
            .and_then(std::os::fd::OwnedFd::try_from)
            .map(Some)
            .map_err(|e| self.bad(key, &format!("the descriptor cannot be taken: {e}")))
    }

    /// An unusable value of `key`.
    pub fn bad(&self, key: &str, why: &str) -> Failure {
        Failure::invalid(format!("{}: {key}: {why}", self.what))
    }
}

fn unknown_key(what: &str, key: &str, keys: Keys) -> Failure {
    let known: Vec<&str> = keys.iter().map(|(known, _)| *known).collect();
    let right = if known.is_empty() {
        "it takes none yet".to_owned()
    } else {
        format!("the keys are {}", known.join(", "))
    };
    let key: String = key.chars().take(64).collect();
    Failure::invalid(format!("{what}: unknown key {key:?}; {right}"))
}

/// Adds a key where there is a value.
pub fn put<T: Into<Variant<'static>>>(dict: &mut Details, key: &'static str, value: Option<T>) {
    if let Some(value) = value {
        dict.insert(key, value.into());
    }
}
