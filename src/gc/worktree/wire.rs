//! What the daemon and the helper say to each other. A request is three NUL-terminated fields:
//!
//! ```text
//! KIND OPTION LIMIT NUL   P probe, I identify, D discover; - or i (ignored files count);
//!                         milliseconds in decimal
//! MOUNT NUL               where the tree's file system is to be mounted; empty for unrecorded
//! PATH NUL                absolute
//! ```
//!
//! An answer is one line of JSON. Answers come in the order of the requests.

use std::io::{self, BufRead, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Inode;
use crate::worker::row;

/// A field of a request longer than this ends the helper: PATH_MAX and some.
const FIELD_MAX: u64 = 8192;

/// A longer answer is garbage to the daemon.
pub(super) const ANSWER_MAX: usize = 64 * 1024;

/// Text in an answer is cut here, in bytes.
const DETAIL_MAX: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Probe,
    Identify,
    Discover,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) ask: Ask,
    /// Ignored files count as dirty.
    pub(super) ignored: bool,
    /// Time the helper may take.
    pub(super) limit: Duration,
    /// Where the file system is to be mounted, if that was recorded.
    pub(super) mount: Option<PathBuf>,
    pub(super) path: PathBuf,
}

impl Request {
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = match self.ask {
            Ask::Probe => 'P',
            Ask::Identify => 'I',
            Ask::Discover => 'D',
        };
        let option = if self.ignored { 'i' } else { '-' };
        let mut out = format!("{kind}{option}{}", self.limit.as_millis()).into_bytes();
        let mount = self.mount.as_deref().unwrap_or(Path::new(""));
        for path in [mount, &self.path] {
            out.push(0);
            out.extend_from_slice(path.as_os_str().as_bytes());
        }
        out.push(0);
        out
    }

    /// `None` at the end of the input, which must lie between two requests.
    pub(super) fn read(from: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(head) = field(from)? else {
            return Ok(None);
        };
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "this is no request");
        let mount = field(from)?.ok_or_else(bad)?;
        let path = field(from)?.ok_or_else(bad)?;
        let [kind, option, limit @ ..] = &head[..] else {
            return Err(bad());
        };
        let limit = std::str::from_utf8(limit).ok().and_then(|l| l.parse().ok());
        Ok(Some(Self {
            ask: match kind {
                b'P' => Ask::Probe,
                b'I' => Ask::Identify,
                b'D' => Ask::Discover,
                _ => return Err(bad()),
            },
            ignored: match option {
                b'i' => true,
                b'-' => false,
                _ => return Err(bad()),
            },
            limit: Duration::from_millis(limit.ok_or_else(bad)?),
            mount: (!mount.is_empty()).then(|| to_path(mount)),
            path: to_path(path),
        }))
    }
}

fn to_path(bytes: Vec<u8>) -> PathBuf {
    std::ffi::OsString::from_vec(bytes).into()
}

fn field(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    from.by_ref().take(FIELD_MAX).read_until(0, &mut out)?;
    match out.pop() {
        Some(0) => Ok(Some(out)),
        Some(_) => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a request is cut off",
        )),
        None => Ok(None),
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Answer {
    Clean,
    Dirty {
        detail: String,
    },
    Unknown {
        detail: String,
    },
    /// To identify.
    Found(Place),
    /// To discover: in no linked worktree.
    None,
}

/// A directory: what it is and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// Itself, then what it lies in.
    pub(super) inodes: Vec<Inode>,
    /// Its name without links.
    #[serde(with = "row::bytes")]
    pub(super) path: PathBuf,
    /// Where its file system is mounted.
    #[serde(with = "row::bytes")]
    pub(super) mount: PathBuf,
}

impl Answer {
    pub(super) fn dirty(detail: impl Into<String>) -> Self {
        Answer::Dirty {
            detail: cut(detail.into()),
        }
    }

    pub(super) fn unknown(detail: impl Into<String>) -> Self {
        Answer::Unknown {
            detail: cut(detail.into()),
        }
    }

    /// One line, with its end.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }

    /// `None` for anything but one whole answer.
    pub(super) fn decode(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
    }
}

/// One line, of bounded length.
fn cut(mut text: String) -> String {
    if text.len() > DETAIL_MAX {
        let end = (0..=DETAIL_MAX).rev().find(|i| text.is_char_boundary(*i));
        text.truncate(end.unwrap_or(0));
    }
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_pipe_with_any_path() {
        let request = Request {
            ask: Ask::Probe,
            ignored: true,
            limit: Duration::from_secs(10),
            mount: Some("/mnt".into()),
            path: to_path(b"/a\n\"'\xff -x ".to_vec()),
        };
        let mut bytes = request.encode();
        let other = Request {
            ask: Ask::Discover,
            ignored: false,
            mount: None,
            ..request.clone()
        };
        bytes.extend(other.encode());
        let mut input = &bytes[..];
        assert_eq!(Request::read(&mut input).unwrap(), Some(request));
        assert_eq!(Request::read(&mut input).unwrap(), Some(other));
        assert_eq!(Request::read(&mut input).unwrap(), None);
    }

    #[test]
    fn a_cut_request_is_an_error() {
        for bad in [
            &b"P"[..],
            b"P-1\0",
            b"P-1\0\0",
            b"P-1\0\0/a",
            b"X-1\0\0/\0",
            b"P-x\0\0/\0",
        ] {
            assert!(Request::read(&mut &bad[..]).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_answer_is_one_whole_line_or_none() {
        for answer in [
            Answer::Clean,
            Answer::dirty("1 untracked"),
            Answer::unknown("a\nb"),
            Answer::None,
            Answer::Found(Place {
                inodes: vec![(1, 2), (1, u64::MAX)],
                path: to_path(b"/\xff".to_vec()),
                mount: "/".into(),
            }),
        ] {
            let line = answer.encode().unwrap();
            assert_eq!(line.iter().filter(|b| **b == b'\n').count(), 1);
            assert_eq!(Answer::decode(&line), Some(answer));
            assert_eq!(Answer::decode(&line[..line.len() - 1]), None);
        }
        for bad in [
            "",
            "\n",
            "{}\n",
            "clean\n",
            "{\"state\":\"fine\"}\n",
            "\"clean\"\n",
        ] {
            assert_eq!(Answer::decode(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn long_details_are_cut_at_a_character() {
        let Answer::Dirty { detail } = Answer::dirty("ä".repeat(2000)) else {
            panic!()
        };
        assert!(detail.len() <= DETAIL_MAX && detail.starts_with("ää"));
    }
}
