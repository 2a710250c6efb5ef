//! State and runtime directories: where they are, and that nobody else can write there.

use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::options::Options;
use crate::error::Fault;
use crate::places::{self, Real};
use crate::sys::privilege::Privileges;
use crate::worker::Owner;

/// State of the system instance.
const SYSTEM_STATE: &str = "/var/lib/musterd";
/// Runtime directory of the system instance.
const SYSTEM_RUNTIME: &str = "/run/musterd";

/// State and runtime directory: as told, else as the specification says.
pub(super) fn directories(options: &Options) -> Result<(PathBuf, PathBuf), Fault> {
    if !options.is_user() {
        let state = options
            .state_dir
            .clone()
            .unwrap_or_else(|| SYSTEM_STATE.into());
        let runtime = options
            .runtime_dir
            .clone()
            .unwrap_or_else(|| SYSTEM_RUNTIME.into());
        return Ok((state, runtime));
    }
    let own = places::private(&Real);
    let own = |given: &Option<PathBuf>, part: fn(places::Private) -> PathBuf| match given {
        Some(path) => Ok(path.clone()),
        None => own
            .clone()
            .map(part)
            .map_err(|e| Fault::Usage(e.to_string())),
    };
    Ok((
        own(&options.state_dir, |p| p.state)?,
        own(&options.runtime_dir, |p| p.runtime)?,
    ))
}

/// Made if missing; refused if somebody else could put something into it. `mode`: what it gets
/// if that is more than it has.
pub(super) fn private_dir(path: &Path, me: Owner, mode: u32) -> Result<(), Fault> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(Fault::io("make", path))?;
    let meta = std::fs::symlink_metadata(path).map_err(Fault::io("look at", path))?;
    if !meta.is_dir() || meta.uid() != me.uid || meta.mode() & 0o022 != 0 {
        let path = path.display();
        let (uid, mode) = (meta.uid(), meta.mode() & 0o7777);
        return Err(Fault::Other(format!(
            "{path} is not safe: owner {uid}, mode {mode:o}; it must be a directory of uid {} that \
             nobody else can write",
            me.uid
        )));
    }
    match meta.mode() | mode {
        wider if wider != meta.mode() => {
            std::fs::set_permissions(path, Permissions::from_mode(wider & 0o7777))
                .map_err(Fault::io("open", path))
        }
        _ => Ok(()),
    }
}

/// Private directories of workers that are gone.
pub(super) fn clear_runtime(
    runtime: &Path,
    me: Owner,
    privileges: Privileges,
) -> Result<(), Fault> {
    let dir = runtime.join("w");
    if let Err(error) = crate::sys::dirs::remove_all(&dir) {
        tracing::warn!(%error, path = %dir.display(), "cannot clear");
        // Only our group can write there: what is left is the workers' own.
        let mode = Permissions::from_mode(0o700);
        std::fs::set_permissions(&dir, mode).map_err(Fault::io("close", &dir))?;
    }
    private_dir(&dir, me, 0o700)?;
    // Workers of other users get through to their own directory. It is made with their user id
    // and our group, see `as_file_owner`.
    let mode = if privileges.other_ids { 0o771 } else { 0o711 };
    std::fs::set_permissions(&dir, Permissions::from_mode(mode)).map_err(Fault::io("open", &dir))
}
