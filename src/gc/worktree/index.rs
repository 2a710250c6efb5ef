//! Looks through a git index (gitformat-index(5)) for entries that `git status` passes over or
//! that need a look of their own: assume-unchanged, skip-worktree and submodules. It spares one
//! git process a tree; what it does not understand wholly is left to `git ls-files`. Pure.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Scan {
    /// Some entry is assume-unchanged or skip-worktree.
    pub(super) flagged: bool,
    /// Paths of submodules.
    pub(super) gitlinks: Vec<PathBuf>,
}

/// Length of an entry before its object name: ten 32-bit fields of stat data.
const STAT_LEN: usize = 40;
const MODE_AT: usize = 24;
const SHA1_LEN: usize = 20;

/// `None` if anything is not as it is in an index of version 2 to 4 with SHA-1 names.
pub(super) fn scan(index: &[u8]) -> Option<Scan> {
    let body = index.get(..index.len().checked_sub(SHA1_LEN)?)?;
    let mut rest = body.strip_prefix(b"DIRC")?;
    let version = take_u32(&mut rest)?;
    let count = take_u32(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut found = Scan::default();
    let mut path = Vec::new();
    for _ in 0..count {
        entry(&mut rest, version, &mut path, &mut found)?;
    }
    extensions(rest)?;
    Some(found)
}

fn entry(rest: &mut &[u8], version: u32, path: &mut Vec<u8>, found: &mut Scan) -> Option<()> {
    const VALID: u16 = 0x8000;
    const EXTENDED: u16 = 0x4000;
    const SKIP_WORKTREE: u16 = 0x4000;
    let start = *rest;
    let mut mode = start.get(MODE_AT..)?;
    let mode = take_u32(&mut mode)?;
    *rest = rest.get(STAT_LEN + SHA1_LEN..)?;
    let flags = take_u16(rest)?;
    let more = match flags & EXTENDED {
        0 => 0,
        _ if version == 2 => return None,
        _ => take_u16(rest)?,
    };
    if version == 4 {
        let strip = take_varint(rest)?;
        path.truncate(path.len().checked_sub(strip)?);
    } else {
        path.clear();
    }
    let end = rest.iter().position(|b| *b == 0)?;
    path.extend_from_slice(&rest[..end]);
    *rest = &rest[end + 1..];
    if version < 4 {
        // One to eight NULs, so that the entry's length is a multiple of eight.
        let length = start.len() - rest.len();
        let padding = rest.get(..length.next_multiple_of(8) - length)?;
        if padding.iter().any(|b| *b != 0) {
            return None;
        }
        *rest = &rest[padding.len()..];
    }
    let name_len = usize::from(flags & 0x0fff);
    if path.is_empty() || (name_len < 0x0fff && name_len != path.len()) {
        return None;
    }
    found.flagged |= flags & VALID != 0 || more & SKIP_WORKTREE != 0;
    match mode >> 12 {
        0o16 => found.gitlinks.push(OsString::from_vec(path.clone()).into()),
        0o10 | 0o12 => {}
        // A directory (sparse index), or nothing that git writes.
        _ => return None,
    }
    Some(())
}

/// An extension with a lower-case name must be understood: `link` (split index) and `sdir`
/// (sparse index) change what the entries mean.
fn extensions(mut rest: &[u8]) -> Option<()> {
    while !rest.is_empty() {
        let (name, tail) = rest.split_at_checked(4)?;
        if !name[0].is_ascii_uppercase() {
            return None;
        }
        rest = tail;
        let length = usize::try_from(take_u32(&mut rest)?).ok()?;
        rest = rest.get(length..)?;
    }
    Some(())
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (bytes, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(u32::from_be_bytes(*bytes))
}

fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    let (bytes, tail) = rest.split_first_chunk::<2>()?;
    *rest = tail;
    Some(u16::from_be_bytes(*bytes))
}

/// The offset encoding of pack files (gitformat-pack(5)).
fn take_varint(rest: &mut &[u8]) -> Option<usize> {
    let mut value = 0_usize;
    let mut first = true;
    loop {
        let (byte, tail) = rest.split_first()?;
        *rest = tail;
        if !first {
            value = value.checked_add(1)?;
        }
        first = false;
        value = value
            .checked_mul(128)?
            .checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

/// The same from `git ls-files -s -v -z`, with the flagged paths by their tag. `None` if the
/// output is not understood.
pub(super) fn parse_ls_files(output: &[u8]) -> Option<Listing> {
    let mut listing = Listing::default();
    if output.is_empty() {
        return Some(listing);
    }
    for record in output.strip_suffix(b"\0")?.split(|b| *b == 0) {
        let [tag, b' ', rest @ ..] = record else {
            return None;
        };
        let tab = rest.iter().position(|b| *b == b'\t')?;
        let (head, path) = (&rest[..tab], &rest[tab + 1..]);
        let mode = head.split(|b| *b == b' ').next()?;
        if path.is_empty() || mode.len() != 6 {
            return None;
        }
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        if mode == b"160000" {
            listing.gitlinks.push(path.clone());
        }
        match tag {
            b'H' | b'M' => {}
            b'h' | b'm' => listing.assumed.push(path),
            b'S' => listing.skipped.push(path),
            b's' => {
                listing.assumed.push(path.clone());
                listing.skipped.push(path);
            }
            _ => return None,
        }
    }
    Some(listing)
}

/// What `git ls-files` lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) gitlinks: Vec<PathBuf>,
    pub(super) assumed: Vec<PathBuf>,
    pub(super) skipped: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An index of version 2 with these entries: mode, flags without length, path.
    fn index(entries: &[(u32, u16, &str)]) -> Vec<u8> {
        let mut out = b"DIRC\0\0\0\x02".to_vec();
        out.extend((entries.len() as u32).to_be_bytes());
        for (mode, flags, path) in entries {
            let start = out.len();
            out.extend([0; MODE_AT]);
            out.extend(mode.to_be_bytes());
            out.extend([0; STAT_LEN - MODE_AT - 4 + SHA1_LEN]);
            out.extend((flags | path.len() as u16).to_be_bytes());
            out.extend(path.as_bytes());
            out.push(0);
            while !(out.len() - start).is_multiple_of(8) {
                out.push(0);
            }
        }
        out.extend([0; SHA1_LEN]);
        out
    }

    #[test]
    fn plain_entries_are_nothing_special() {
        let plain = index(&[
            (0o100644, 0, "a"),
            (0o120000, 0, "longer/path"),
            (0o100755, 0, "z"),
        ]);
        assert_eq!(scan(&plain), Some(Scan::default()));
    }

    #[test]
    fn assume_unchanged_and_submodules_are_seen() {
        let found = scan(&index(&[(0o100644, 0x8000, "a"), (0o160000, 0, "sub")])).unwrap();
        assert!(found.flagged);
        assert_eq!(found.gitlinks, [PathBuf::from("sub")]);
    }

    #[test]
    fn a_split_or_sparse_index_is_left_to_git() {
        for name in [b"link", b"sdir"] {
            let mut split = index(&[]);
            split.splice(12..12, name.iter().copied().chain([0; 4]));
            assert_eq!(scan(&split), None);
        }
        assert_eq!(scan(&index(&[(0o040000, 0, "dir/")])), None);
    }

    #[test]
    fn a_cut_index_is_not_understood() {
        let whole = index(&[(0o100644, 0, "abc"), (0o100644, 0, "b")]);
        for end in 0..whole.len() {
            assert_eq!(scan(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn the_tags_of_ls_files_are_told_apart() {
        let listing = parse_ls_files(
            b"H 100644 aa 0\ta\0h 100644 aa 0\tb\tc\0S 100644 aa 0\td\0s 160000 aa 0\te\0",
        )
        .unwrap();
        assert_eq!(listing.assumed, [PathBuf::from("b\tc"), "e".into()]);
        assert_eq!(listing.skipped, [PathBuf::from("d"), "e".into()]);
        assert_eq!(listing.gitlinks, [PathBuf::from("e")]);
        for bad in [
            &b"garbage"[..],
            b"garbage\0",
            b"H 100644 aa 0\ta",
            b"X 100644 aa 0\ta\0",
        ] {
            assert_eq!(parse_ls_files(bad), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut with_head = b"DIRC\0\0\0\x04\0\0\0\x02".to_vec();
            with_head.extend(&bytes);
            let _ = (scan(&bytes), scan(&with_head), parse_ls_files(&bytes));
        }
    }
}
