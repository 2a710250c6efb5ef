use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use super::record::{Loaded, encode};
use super::store::{ClockMark, Store, StoreError};
use crate::worker::{Owner, Row, Timestamp, WorkerId};

fn id(n: u64) -> WorkerId {
    WorkerId::from_bits(n)
}

fn row(n: u64) -> Row {
    Row::new(id(n), Owner { uid: 1, gid: 1 }, Timestamp(1))
}

fn put(dir: &Path, n: u64) {
    let text = encode(&row(n), &None);
    fs::write(dir.join(format!("rows/{}.toml", id(n))), text).unwrap();
}

/// A state directory with rows 0 to `n`.
fn with_rows(n: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    Store::open(dir.path()).unwrap();
    (0..n).for_each(|n| put(dir.path(), n));
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn directories_are_private_and_made_when_missing() {
    let top = tempfile::tempdir().unwrap();
    let dir = top.path().join("a/b");
    Store::open(&dir).unwrap();
    assert_eq!(names(&dir), ["quarantine", "reaped", "rows"]);
    for sub in [".", "rows", "reaped", "quarantine"] {
        assert_eq!(fs::metadata(dir.join(sub)).unwrap().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_directory_that_others_may_write_is_refused() {
    let dir = with_rows(0);
    let rows = dir.path().join("rows");
    fs::set_permissions(&rows, fs::Permissions::from_mode(0o770)).unwrap();
    let error = Store::open(dir.path()).unwrap_err();
    assert!(matches!(error, StoreError::Unsafe { .. }), "{error}");
    assert!(
        error.to_string().contains(rows.to_str().unwrap()),
        "{error}"
    );
}

#[test]
fn a_directory_of_rows_that_is_a_symlink_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), dir.path().join("rows")).unwrap();
    assert!(Store::open(dir.path()).is_err());
    assert!(names(elsewhere.path()).is_empty());
}

#[test]
fn all_rows_load_sorted_by_id_with_one_thread_or_two() {
    for n in [0, 1, 100, 1000] {
        let dir = with_rows(n);
        let load = Store::open(dir.path()).unwrap().load().unwrap();
        let found: Vec<_> = load.rows.iter().map(|r| r.row().id).collect();
        let mut wanted: Vec<_> = (0..n).map(id).collect();
        wanted.sort();
        assert_eq!(found, wanted);
        assert!(load.quarantined.is_empty() && load.warnings.is_empty());
    }
}

#[test]
fn bad_rows_are_put_aside_and_strangers_left_alone() {
    let dir = with_rows(100);
    let rows = dir.path().join("rows");
    let bad = |n: u64| rows.join(format!("{}.toml", id(n)));
    fs::write(bad(200), "").unwrap();
    fs::write(bad(201), [0; 300]).unwrap();
    fs::write(bad(202), "schema = 1\nid = ").unwrap();
    fs::write(bad(203), encode(&row(1), &None)).unwrap();
    fs::write(rows.join(".swp"), "x").unwrap();
    fs::write(rows.join(format!(".{}.toml.swp", id(1))), "x").unwrap();
    fs::write(rows.join("README.toml"), "x").unwrap();
    fs::create_dir(rows.join("x.toml")).unwrap();
    fs::create_dir(bad(204)).unwrap();
    symlink("/etc/passwd", bad(205)).unwrap();
    symlink("nowhere", rows.join("x")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bad(206),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    let before = names(&rows);

    let load = Store::open(dir.path()).unwrap().load().unwrap();
    assert_eq!(load.rows.len(), 100);
    let mut whys: Vec<_> = load.quarantined.iter().map(|q| q.why.as_str()).collect();
    whys.sort();
    assert_eq!(whys.len(), 4, "{whys:?}");
    assert!(whys.contains(&"the file is empty"), "{whys:?}");
    assert!(whys.contains(&"the file holds NUL bytes"), "{whys:?}");
    assert_eq!(load.warnings.len(), 8, "{:#?}", load.warnings);
    assert_eq!(names(&rows).len(), before.len() - 4);
    assert_eq!(names(&dir.path().join("quarantine")).len(), 4);

    // Once aside, they are no longer in the way, but still counted.
    let store = Store::open(dir.path()).unwrap();
    let load = store.load().unwrap();
    assert_eq!((load.rows.len(), load.quarantined.len()), (100, 0));
    assert_eq!(store.quarantined().unwrap().len(), 4);
}

#[test]
fn quarantine_never_replaces_an_earlier_file() {
    let dir = with_rows(0);
    let name = format!("{}.toml", id(1));
    for n in 0..4 {
        fs::write(dir.path().join("rows").join(&name), format!("bad {n}")).unwrap();
        Store::open(dir.path()).unwrap().load().unwrap();
    }
    let quarantine = dir.path().join("quarantine");
    let wanted: Vec<_> = ["", ".1", ".2", ".3"]
        .map(|n| format!("{name}{n}"))
        .to_vec();
    assert_eq!(names(&quarantine), wanted);
    for (n, name) in wanted.iter().enumerate() {
        let text = fs::read_to_string(quarantine.join(name)).unwrap();
        assert_eq!(text, format!("bad {n}"));
    }
}

#[test]
fn a_newer_row_is_loaded_and_its_bytes_are_left_alone() {
    let dir = with_rows(1);
    let path = dir.path().join(format!("rows/{}.toml", id(0)));
    let text = fs::read_to_string(&path).unwrap();
    let newer = text.replace("schema = 1", "schema = 999") + "future = [1]\n";
    fs::write(&path, &newer).unwrap();
    let load = Store::open(dir.path()).unwrap().load().unwrap();
    assert!(matches!(load.rows[0], Loaded::Newer { schema: 999, .. }));
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
}

#[test]
fn a_half_written_file_is_removed_at_open_and_the_row_is_whole() {
    let dir = with_rows(1);
    let rows = dir.path().join("rows");
    fs::write(rows.join(format!(".{}.toml.new", id(0))), "schema = 1\nid").unwrap();
    let load = Store::open(dir.path()).unwrap().load().unwrap();
    assert_eq!((load.rows.len(), load.warnings.len()), (1, 0));
    assert_eq!(names(&rows).len(), 1);
}

#[test]
fn a_file_larger_than_any_row_is_put_aside_unread() {
    let dir = with_rows(1);
    let path = dir.path().join(format!("rows/{}.toml", id(5)));
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    let load = Store::open(dir.path()).unwrap().load().unwrap();
    assert_eq!((load.rows.len(), load.quarantined.len()), (1, 1));
}

#[test]
fn reaped_rows_are_listed_loaded_and_purged_by_age() {
    let dir = with_rows(3);
    let store = Store::open(dir.path()).unwrap();
    for n in 0..2 {
        let name = format!("{}.toml", id(n));
        let from = dir.path().join("rows").join(&name);
        fs::rename(from, dir.path().join("reaped").join(&name)).unwrap();
    }
    let mut both = vec![id(0), id(1)];
    both.sort();
    assert_eq!(store.list_reaped().unwrap(), both);
    let loaded = store.load_reaped(id(0)).unwrap().unwrap();
    assert_eq!(loaded.row(), &row(0));
    assert_eq!(store.load_reaped(id(2)).unwrap(), None);

    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let now = Timestamp(wall.as_micros() as i64);
    let week = Duration::from_secs(7 * 86_400);
    assert_eq!(store.purge_reaped(week, now).unwrap(), []);
    let later = now.plus(week.as_micros() as i64 + 5_000_000);
    assert_eq!(store.purge_reaped(week, later).unwrap(), both);
    assert!(names(&dir.path().join("reaped")).is_empty());
    assert_eq!(store.load().unwrap().rows.len(), 1);
}

#[test]
fn the_clock_mark_survives_and_garbage_is_none() {
    let dir = with_rows(0);
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.read_clock(), None);
    let mark = ClockMark {
        boot_id: "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a".parse().unwrap(),
        wall_minus_boot_usec: -5,
    };
    store.write_clock(mark).unwrap();
    assert_eq!(store.read_clock(), Some(mark));
    for garbage in ["", "boot_id = 5", "\0\0", "boot_id = \"x\""] {
        fs::write(dir.path().join("clock.toml"), garbage).unwrap();
        assert_eq!(store.read_clock(), None);
    }
}
