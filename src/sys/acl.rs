//! One entry of a POSIX access control list (acl(5)), as journald uses it: a file that stays the
//! daemon's and that one user may read. Changing the list needs no capability, only ownership.

use std::fs::File;
use std::io;

use rustix::fs::{XattrFlags, fsetxattr};

/// linux/posix_acl_xattr.h and linux/posix_acl.h.
const VERSION: u32 = 2;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const NOBODY: u32 = u32::MAX;
const READ: u16 = 4;
const WRITE: u16 = 2;

/// The owner may read and write, `uid` may read, nobody else anything.
///
/// # Errors
/// The file system knows no such lists (`EOPNOTSUPP`), or the file is not ours.
pub fn let_read(file: &File, uid: u32) -> io::Result<()> {
    let entries = [
        (USER_OBJ, READ | WRITE, NOBODY),
        (USER, READ, uid),
        (GROUP_OBJ, 0, NOBODY),
        (MASK, READ, NOBODY),
        (OTHER, 0, NOBODY),
    ];
    let mut value = VERSION.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        value.extend_from_slice(&tag.to_le_bytes());
        value.extend_from_slice(&rights.to_le_bytes());
        value.extend_from_slice(&id.to_le_bytes());
    }
    let name = c"system.posix_acl_access";
    Ok(fsetxattr(file, name, &value, XattrFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_named_user_may_read_and_the_group_is_only_the_mask() {
        let file = tempfile::tempfile().unwrap();
        match let_read(&file, 4242) {
            Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => return,
            other => other.unwrap(),
        }
        // The group bits of a file with a list show its mask.
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        let mut value = [0; 64];
        let length = rustix::fs::fgetxattr(&file, c"system.posix_acl_access", &mut value).unwrap();
        assert_eq!(length, 4 + 5 * 8);
    }
}
