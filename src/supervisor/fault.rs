//! Why a start failed, on its way to the row and to the caller.

use crate::sys::cgroup::Leaf;
use crate::sys::spawn::SpawnError;
use crate::worker::row::clip;

/// A start that failed, at whichever step.
#[derive(Debug)]
pub(super) struct StartFault {
    /// errno, 0 if the kernel said nothing.
    pub errno: i32,
    /// The step, in words.
    pub what: String,
    /// The path it was about, if any.
    pub path: String,
    /// The leaf that was made for it; it may be busy for a moment.
    pub leaf: Option<Leaf>,
}

/// What is told of a path that may be as long as an argument, bytes.
const PATH_SHOWN: usize = 512;

impl From<SpawnError> for StartFault {
    fn from(error: SpawnError) -> Self {
        let what = error.stage.words().to_owned();
        Self {
            errno: error.errno,
            what,
            path: clip(&error.path, PATH_SHOWN),
            leaf: None,
        }
    }
}

impl StartFault {
    /// For the row and the log.
    pub(super) fn sentence(&self) -> String {
        let path = if self.path.is_empty() {
            String::new()
        } else {
            format!(" {}", self.path)
        };
        let why = super::refused::cause(self.errno);
        format!("{}{path}{why}", self.what)
    }
}
