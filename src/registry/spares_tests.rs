use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::bench_disk::{Bench, NEVER, wait_until};
use super::store::Store;

fn now(bench: &Bench, n: u64, text: &str) {
    bench.write(n, text).blocking_recv().unwrap().unwrap();
    assert_eq!(bench.text("rows", n).as_deref(), Some(text));
}

fn inode(bench: &Bench, n: u64) -> u64 {
    fs::metadata(bench.path("rows", n)).unwrap().ino()
}

fn reuses(bench: &Bench) -> u64 {
    bench.switches.reuses.load(Ordering::SeqCst)
}

/// All names in `rows/` that are no rows.
fn spares(bench: &Bench) -> Vec<PathBuf> {
    let entries = fs::read_dir(bench.dir.path().join("rows")).unwrap();
    let hidden = |path: &PathBuf| path.file_name().unwrap().as_encoded_bytes()[0] == b'.';
    entries.map(|e| e.unwrap().path()).filter(hidden).collect()
}

#[test]
fn a_row_that_changes_again_and_again_takes_turns_between_two_files() {
    let bench = Bench::new(NEVER);
    let texts = [
        "one",
        "a longer text",
        "",
        "short",
        "the longest text of all of them",
    ];
    let mut inodes = Vec::new();
    for n in 0..20 {
        now(&bench, 1, texts[n % texts.len()]);
        inodes.push(inode(&bench, 1));
    }
    assert_eq!(reuses(&bench), 18);
    assert!(inodes.windows(2).all(|two| two[0] != two[1]), "{inodes:?}");
    assert!(
        inodes.windows(3).all(|three| three[0] == three[2]),
        "{inodes:?}"
    );
    bench.writer.stop().unwrap();
}

#[test]
fn what_one_row_leaves_is_written_over_by_another_but_no_new_one() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "one");
    now(&bench, 1, "one again");
    now(&bench, 2, "two is new and takes nothing");
    assert_eq!((reuses(&bench), spares(&bench).len()), (0, 1));
    now(&bench, 2, "two takes the file of one");
    assert_eq!((reuses(&bench), spares(&bench).len()), (1, 1));
    now(&bench, 1, "and one goes on");
    assert_eq!(reuses(&bench), 2);
    assert_eq!(
        bench.text("rows", 2).as_deref(),
        Some("two takes the file of one")
    );
    bench.writer.stop().unwrap();
}

#[test]
fn many_rows_that_change_together_in_any_order_never_share_a_file() {
    let bench = Bench::new(NEVER);
    let mut texts = std::collections::BTreeMap::new();
    for round in 0..40_u64 {
        // Some are new, some change, and each takes what another has left.
        let answers: Vec<_> = (0..17)
            .map(|n| (round * 7 + n * n) % 50)
            .map(|n| {
                let text = format!("{n} in round {round}");
                texts.insert(n, text.clone());
                bench.write(n, &text)
            })
            .collect();
        for answer in answers {
            answer.blocking_recv().unwrap().unwrap();
        }
        for (n, text) in &texts {
            assert_eq!(bench.text("rows", *n).as_ref(), Some(text));
        }
    }
    assert!(reuses(&bench) > 300, "{}", reuses(&bench));
    bench.writer.stop().unwrap();
}

#[test]
fn who_reads_an_old_version_reads_it_to_the_end() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "first");
    let mut reader = File::open(bench.path("rows", 1)).unwrap();
    for n in 0..10 {
        now(&bench, 1, &format!("version {n}"));
        now(&bench, 2, &format!("other {n}"));
    }
    assert!(reuses(&bench) > 0);
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
    bench.writer.stop().unwrap();
}

#[test]
fn a_second_name_keeps_its_text_and_its_mode_comes_to_no_other_row() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "first");
    let backup = bench.dir.path().join("backup");
    fs::hard_link(bench.path("rows", 1), &backup).unwrap();
    now(&bench, 1, "second");
    now(&bench, 1, "third");
    now(&bench, 1, "fourth");
    assert_eq!(fs::read_to_string(&backup).unwrap(), "first");
    fs::set_permissions(bench.path("rows", 1), PermissionsExt::from_mode(0o644)).unwrap();
    for n in 0..4 {
        now(&bench, 2, &format!("other {n}"));
        now(&bench, 1, &format!("one {n}"));
    }
    for n in [1, 2] {
        let mode = fs::metadata(bench.path("rows", n)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
    }
    bench.writer.stop().unwrap();
}

#[test]
fn nothing_is_written_over_whose_exchange_may_not_be_on_disk() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "first");
    bench
        .switches
        .broken_directory
        .store(true, Ordering::SeqCst);
    for n in 0..3 {
        let result = bench.write(1, &n.to_string()).blocking_recv().unwrap();
        assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert_eq!((reuses(&bench), spares(&bench).len()), (0, 0));
    }
    bench
        .switches
        .broken_directory
        .store(false, Ordering::SeqCst);
    now(&bench, 1, "last");
    bench.writer.stop().unwrap();
}

#[test]
fn a_spare_that_cannot_be_used_is_removed_and_a_new_file_made() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "first");
    now(&bench, 1, "second");
    let spare = spares(&bench).pop().unwrap();
    fs::remove_file(&spare).unwrap();
    let other = bench.dir.path().join("other");
    fs::write(&other, "other").unwrap();
    fs::set_permissions(&other, PermissionsExt::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink(&other, &spare).unwrap();
    now(&bench, 1, "third");
    assert_eq!(fs::read_to_string(&other).unwrap(), "other");
    let made = bench.path("rows", 1);
    assert!(fs::symlink_metadata(made).unwrap().is_file());
    assert_eq!(reuses(&bench), 0);
    bench.writer.stop().unwrap();
}

#[test]
fn a_disk_that_fails_gets_their_room_back() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "first");
    now(&bench, 1, "second");
    assert_eq!(spares(&bench).len(), 1);
    bench.switches.full.store(true, Ordering::SeqCst);
    let result = bench.write(2, "new").blocking_recv().unwrap();
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::ENOSPC));
    wait_until("they are removed", || spares(&bench).is_empty());
    bench.switches.full.store(false, Ordering::SeqCst);
    now(&bench, 1, "third");
    bench.writer.stop().unwrap();
}

#[test]
fn a_directory_in_a_rows_place_is_left_alone() {
    let bench = Bench::new(NEVER);
    now(&bench, 1, "first");
    fs::remove_file(bench.path("rows", 1)).unwrap();
    fs::create_dir(bench.path("rows", 1)).unwrap();
    let result = bench.write(1, "second").blocking_recv().unwrap();
    assert_eq!(result.unwrap_err().raw_os_error(), Some(libc::EISDIR));
    assert!(bench.path("rows", 1).is_dir());
    assert_eq!(spares(&bench), Vec::<PathBuf>::new());
    fs::remove_dir(bench.path("rows", 1)).unwrap();
    now(&bench, 1, "third");
    bench.writer.stop().unwrap();
}

#[test]
fn spares_go_when_nothing_is_written_and_with_the_thread_and_after_a_crash() {
    let bench = Bench::new(NEVER);
    let rewrite = || {
        for text in ["one", "two"] {
            let answers: Vec<_> = (0..200).map(|n| bench.write(n, text)).collect();
            for answer in answers {
                answer.blocking_recv().unwrap().unwrap();
            }
        }
    };
    rewrite();
    // A burst leaves no more than one batch of them.
    let left = spares(&bench).len();
    assert!((1..=128).contains(&left), "{left}");
    wait_until("they are removed", || spares(&bench).is_empty());
    rewrite();
    let crashed = tempfile::tempdir().unwrap();
    fs::create_dir(crashed.path().join("rows")).unwrap();
    for spare in spares(&bench) {
        let name = spare.file_name().unwrap();
        fs::copy(&spare, crashed.path().join("rows").join(name)).unwrap();
    }
    bench.writer.clone().stop().unwrap();
    assert_eq!(spares(&bench), Vec::<PathBuf>::new());
    let load = Store::open(crashed.path()).unwrap().load().unwrap();
    assert_eq!((load.rows.len(), load.warnings.len()), (0, 0));
    assert_eq!(
        fs::read_dir(crashed.path().join("rows")).unwrap().count(),
        0
    );
}
