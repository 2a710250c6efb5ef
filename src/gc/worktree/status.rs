//! Reads `git status --porcelain=v2 --branch -z` (git-status(1)). What is not understood to the
//! last byte is an error, so that no broken output can pass for a clean tree. Pure.

#![forbid(unsafe_code)]

/// What the status says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Status {
    pub(super) staged: u64,
    pub(super) unstaged: u64,
    pub(super) conflicted: u64,
    pub(super) untracked: u64,
    pub(super) ignored: u64,
    pub(super) head: Head,
}

/// Where HEAD stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Head {
    /// On a branch, born or not.
    #[default]
    Branch,
    /// On a commit.
    Detached(String),
}

impl Status {
    /// `2 untracked, 1 staged`; `None` if there is nothing to tell.
    pub(super) fn changes(&self) -> Option<String> {
        let kinds = [
            (self.conflicted, "conflicted"),
            (self.staged, "staged"),
            (self.unstaged, "unstaged"),
            (self.untracked, "untracked"),
            (self.ignored, "ignored"),
        ];
        let words: Vec<String> = kinds
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}"))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// The error says what was not understood.
pub(super) fn parse(output: &[u8]) -> Result<Status, String> {
    let mut status = Status::default();
    let (mut oid, mut head) = (None, None);
    let Some(body) = output.strip_suffix(b"\0") else {
        return Err(match output {
            [] => "git status printed nothing".to_owned(),
            _ => "the output of git status is cut off".to_owned(),
        });
    };
    let mut records = body.split(|b| *b == 0);
    while let Some(record) = records.next() {
        match record {
            [b'#', b' ', header @ ..] => {
                let text = std::str::from_utf8(header).map_err(|_| strange(record))?;
                match text.split_once(' ') {
                    Some(("branch.oid", value)) => oid = Some(value.to_owned()),
                    Some(("branch.head", value)) => head = Some(value.to_owned()),
                    Some(("branch.upstream" | "branch.ab" | "stash", _)) => {}
                    _ => return Err(strange(record)),
                }
            }
            [b'1', b' ', rest @ ..] => {
                changed(&mut status, rest, 8).ok_or_else(|| strange(record))?
            }
            [b'2', b' ', rest @ ..] => {
                changed(&mut status, rest, 9).ok_or_else(|| strange(record))?;
                // The path before the rename is a record of its own.
                records
                    .next()
                    .filter(|r| !r.is_empty())
                    .ok_or_else(|| strange(record))?;
            }
            [b'u', b' ', rest @ ..] => {
                path_after(rest, 10).ok_or_else(|| strange(record))?;
                status.conflicted += 1;
            }
            [b'?', b' ', _, ..] => status.untracked += 1,
            [b'!', b' ', _, ..] => status.ignored += 1,
            _ => return Err(strange(record)),
        }
    }
    let (Some(oid), Some(head)) = (oid, head) else {
        return Err("git status named no branch".to_owned());
    };
    if oid != "(initial)" && !is_oid(&oid) {
        return Err(strange(oid.as_bytes()));
    }
    if head == "(detached)" {
        status.head = match is_oid(&oid) {
            true => Head::Detached(oid),
            false => return Err("HEAD is detached and names no commit".to_owned()),
        };
    }
    Ok(status)
}

fn is_oid(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// `XY sub mH mI mW hH hI [score] path`, of which X is the index and Y the work tree.
fn changed(status: &mut Status, rest: &[u8], fields: usize) -> Option<()> {
    path_after(rest, fields)?;
    let [x, y, b' ', ..] = rest else { return None };
    let known = |c: &u8| b".MTADRCU".contains(c);
    if !known(x) || !known(y) || (*x == b'.' && *y == b'.') {
        return None;
    }
    status.staged += u64::from(*x != b'.');
    status.unstaged += u64::from(*y != b'.');
    Some(())
}

/// The path, which is the field of that number and may hold spaces.
fn path_after(rest: &[u8], fields: usize) -> Option<&[u8]> {
    let mut parts = rest.splitn(fields, |b| *b == b' ');
    for _ in 1..fields {
        parts.next().filter(|field| !field.is_empty())?;
    }
    parts.next().filter(|path| !path.is_empty())
}

fn strange(record: &[u8]) -> String {
    let start = &record[..record.len().min(60)];
    format!("git status printed {:?}", String::from_utf8_lossy(start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OID: &str = "0123456789012345678901234567890123456789";

    fn on_branch(rest: &str) -> Vec<u8> {
        format!("# branch.oid {OID}\0# branch.head main\0{rest}").into_bytes()
    }

    #[test]
    fn only_a_whole_status_without_entries_is_clean() {
        let status = parse(&on_branch("")).unwrap();
        assert_eq!(status, Status::default());
        assert_eq!(status.changes(), None);
    }

    #[test]
    fn every_kind_of_entry_is_counted() {
        let modes = "N... 100644 100644 100644";
        let status = parse(&on_branch(&format!(
            "1 M. {modes} {OID} {OID} a b\x001 .M {modes} {OID} {OID} c\0\
             2 R. {modes} {OID} {OID} R100 new\0old\0\
             u UU {modes} 100644 {OID} {OID} {OID} d\0? e f\0! g\0"
        )))
        .unwrap();
        assert_eq!(
            status.changes().unwrap(),
            "1 conflicted, 2 staged, 1 unstaged, 1 untracked, 1 ignored"
        );
    }

    #[test]
    fn a_detached_head_names_its_commit() {
        let text = format!("# branch.oid {OID}\0# branch.head (detached)\0");
        assert_eq!(
            parse(text.as_bytes()).unwrap().head,
            Head::Detached(OID.into())
        );
        let unborn = "# branch.oid (initial)\0# branch.head main\0";
        assert_eq!(parse(unborn.as_bytes()).unwrap().head, Head::Branch);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let whole = on_branch("");
        let cases: Vec<Vec<u8>> = vec![
            vec![],
            b"\0".to_vec(),
            b"garbage".to_vec(),
            b"garbage\0".to_vec(),
            b"? untracked\0".to_vec(),
            whole[..whole.len() - 1].to_vec(),
            on_branch("x\0"),
            on_branch("? \0"),
            on_branch("1 M. N... 100644\0"),
            on_branch(&format!("1 .. N... 1 1 1 {OID} {OID} a\0")),
            on_branch("\0"),
            b"# branch.oid zzz\0# branch.head main\0".to_vec(),
            b"# branch.oid (initial)\0# branch.head (detached)\0".to_vec(),
        ];
        for case in cases {
            let text = String::from_utf8_lossy(&case).into_owned();
            assert!(parse(&case).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
