use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::bench_disk::{Bench, NEVER, SOON, errno_of, id, wait_until};
use super::store::{ClockMark, Store};
use super::writer::{Health, Job, Writer};

#[test]
fn a_write_is_on_disk_when_it_is_answered_and_nobody_else_may_read_it() {
    let bench = Bench::new(NEVER);
    bench.write(1, "a").blocking_recv().unwrap().unwrap();
    assert_eq!(bench.text("rows", 1).as_deref(), Some("a"));
    assert_eq!(
        fs::metadata(bench.path("rows", 1)).unwrap().mode() & 0o777,
        0o600
    );
    assert_eq!(
        fs::read_dir(bench.dir.path().join("rows")).unwrap().count(),
        1
    );
    bench.writer.stop().unwrap();
}

#[test]
fn what_gathers_behind_a_slow_disk_becomes_one_batch_of_the_newest_texts() {
    let bench = Bench::new(NEVER);
    bench.hold(true);
    let first = bench.write(0, "first");
    let answers: Vec<_> = (0..3000)
        .map(|n| bench.write(n % 100, &n.to_string()))
        .collect();
    bench.hold(false);
    first.blocking_recv().unwrap().unwrap();
    for answer in answers {
        answer.blocking_recv().unwrap().unwrap();
    }
    for n in 0..100 {
        assert_eq!(bench.text("rows", n), Some((2900 + n).to_string()));
    }
    let creates = bench.switches.creates.load(Ordering::SeqCst);
    let syncs = bench.switches.syncs.load(Ordering::SeqCst);
    assert!(creates <= 300, "{creates} files for 100 rows");
    // One directory sync for each batch, one file sync for each file.
    assert!(syncs <= creates + 3, "{syncs} syncs of {creates} files");
    bench.writer.stop().unwrap();
}

#[test]
fn a_full_disk_keeps_the_old_file_and_everything_is_written_when_space_returns() {
    let bench = Bench::new(SOON);
    bench.write(1, "old").blocking_recv().unwrap().unwrap();
    bench.switches.full.store(true, Ordering::SeqCst);
    let result = bench.write(1, "new").blocking_recv().unwrap();
    assert_eq!(errno_of(result), Some(libc::ENOSPC));
    let health = bench.writer.health();
    let Health::Degraded(why) = health.borrow().clone() else {
        panic!("not degraded");
    };
    assert!(
        why.contains(bench.path("rows", 1).to_str().unwrap()),
        "{why}"
    );
    assert_eq!(bench.text("rows", 1).as_deref(), Some("old"));
    assert!(bench.writer.flush().blocking_recv().unwrap().is_err());

    let tried = bench.switches.creates.load(Ordering::SeqCst);
    wait_until("it is tried again", || {
        bench.switches.creates.load(Ordering::SeqCst) > tried + 2
    });
    bench.switches.full.store(false, Ordering::SeqCst);
    wait_until("it is written", || {
        bench.text("rows", 1).as_deref() == Some("new")
    });
    wait_until("health returns", || *health.borrow() == Health::Ok);
    bench.writer.stop().unwrap();
}

#[test]
fn the_next_job_tries_what_failed_at_once() {
    let bench = Bench::new(NEVER);
    bench.switches.broken_sync.store(true, Ordering::SeqCst);
    let result = bench.write(1, "one").blocking_recv().unwrap();
    assert_eq!(errno_of(result), Some(libc::EIO));
    // Nothing half-written is left behind either.
    let rows = bench.dir.path().join("rows");
    assert_eq!(fs::read_dir(rows).unwrap().count(), 0);
    bench.switches.broken_sync.store(false, Ordering::SeqCst);
    bench.write(2, "two").blocking_recv().unwrap().unwrap();
    bench.writer.flush().blocking_recv().unwrap().unwrap();
    assert_eq!(bench.text("rows", 1).as_deref(), Some("one"));
    assert_eq!(*bench.writer.health().borrow(), Health::Ok);
    bench.writer.stop().unwrap();
}

#[test]
fn stop_writes_everything_or_says_that_it_could_not() {
    let bench = Bench::new(NEVER);
    bench.hold(true);
    let answers: Vec<_> = (0..300).map(|n| bench.write(n, "x")).collect();
    bench.hold(false);
    let other = bench.writer.clone();
    bench.writer.clone().stop().unwrap();
    for answer in answers {
        answer.blocking_recv().unwrap().unwrap();
    }
    assert_eq!(
        fs::read_dir(bench.dir.path().join("rows")).unwrap().count(),
        300
    );
    assert!(other.submit(Job::Reap(id(1))).blocking_recv().is_err());

    let bench = Bench::new(NEVER);
    bench.switches.full.store(true, Ordering::SeqCst);
    drop(bench.write(1, "x"));
    assert_eq!(errno_of(bench.writer.stop()), Some(libc::ENOSPC));
}

#[test]
fn a_reap_comes_after_the_writes_before_it_and_a_restore_brings_the_row_back() {
    let bench = Bench::new(NEVER);
    bench.hold(true);
    drop(bench.write(9, "x"));
    let jobs = [
        bench.write(1, "a"),
        bench.write(1, "b"),
        bench.writer.submit(Job::Reap(id(1))),
    ];
    bench.hold(false);
    for job in jobs {
        job.blocking_recv().unwrap().unwrap();
    }
    assert_eq!(bench.text("rows", 1), None);
    assert_eq!(bench.text("reaped", 1).as_deref(), Some("b"));

    bench.hold(true);
    drop(bench.write(9, "y"));
    let jobs = [
        bench.writer.submit(Job::Restore(id(1))),
        bench.write(1, "c"),
        bench.writer.submit(Job::Reap(id(1))),
        bench.writer.submit(Job::Restore(id(1))),
        bench.write(1, "d"),
    ];
    bench.hold(false);
    for job in jobs {
        job.blocking_recv().unwrap().unwrap();
    }
    assert_eq!(bench.text("rows", 1).as_deref(), Some("d"));
    assert_eq!(bench.text("reaped", 1), None);
    bench.writer.stop().unwrap();
}

#[test]
fn a_reap_marks_the_time_and_replaces_an_older_file_of_the_row() {
    let bench = Bench::new(NEVER);
    bench.write(1, "a").blocking_recv().unwrap().unwrap();
    let path = bench.path("rows", 1);
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_times(old)
        .unwrap();
    bench
        .writer
        .submit(Job::Reap(id(1)))
        .blocking_recv()
        .unwrap()
        .unwrap();
    assert!(fs::metadata(bench.path("reaped", 1)).unwrap().mtime() > 1_000_000);
    bench.write(1, "b").blocking_recv().unwrap().unwrap();
    bench
        .writer
        .submit(Job::Reap(id(1)))
        .blocking_recv()
        .unwrap()
        .unwrap();
    assert_eq!(bench.text("reaped", 1).as_deref(), Some("b"));
    bench.writer.stop().unwrap();
}

#[test]
fn a_restore_never_replaces_a_row_and_a_missing_one_is_told() {
    let bench = Bench::new(NEVER);
    bench.write(1, "old").blocking_recv().unwrap().unwrap();
    bench
        .writer
        .submit(Job::Reap(id(1)))
        .blocking_recv()
        .unwrap()
        .unwrap();
    bench.write(1, "new").blocking_recv().unwrap().unwrap();
    let restore = |n| {
        let answer = bench.writer.submit(Job::Restore(id(n)));
        errno_of(answer.blocking_recv().unwrap())
    };
    assert_eq!(restore(1), Some(libc::EEXIST));
    assert_eq!(restore(2), Some(libc::ENOENT));
    assert_eq!(bench.text("rows", 1).as_deref(), Some("new"));
    assert_eq!(bench.text("reaped", 1).as_deref(), Some("old"));
    // A move that cannot be done is an answer, not a sick disk.
    assert_eq!(*bench.writer.health().borrow(), Health::Ok);
    bench.writer.stop().unwrap();
}

#[test]
fn a_reap_behind_a_failed_write_fails_and_is_not_done_later() {
    let bench = Bench::new(NEVER);
    bench.write(1, "old").blocking_recv().unwrap().unwrap();
    bench.switches.read_only.store(true, Ordering::SeqCst);
    bench.hold(true);
    drop(bench.write(9, "x"));
    let jobs = [
        bench.write(1, "new"),
        bench.writer.submit(Job::Reap(id(1))),
        bench.write(1, "newer"),
    ];
    bench.hold(false);
    for job in jobs {
        assert_eq!(errno_of(job.blocking_recv().unwrap()), Some(libc::EROFS));
    }
    bench.switches.read_only.store(false, Ordering::SeqCst);
    bench.write(2, "x").blocking_recv().unwrap().unwrap();
    assert_eq!(bench.text("rows", 1).as_deref(), Some("newer"));
    assert_eq!(bench.text("reaped", 1), None);
    bench.writer.stop().unwrap();
}

#[test]
fn the_clock_mark_is_written_and_tried_again() {
    let bench = Bench::new(SOON);
    let mark = ClockMark {
        boot_id: "0b6bd4c2-5b4c-4f2e-9d3f-1c1f6a1c2f3a".parse().unwrap(),
        wall_minus_boot_usec: 7,
    };
    bench.switches.read_only.store(true, Ordering::SeqCst);
    let answer = bench
        .writer
        .submit(Job::Clock(mark))
        .blocking_recv()
        .unwrap();
    assert_eq!(errno_of(answer), Some(libc::EROFS));
    bench.switches.read_only.store(false, Ordering::SeqCst);
    let store = Store::open(bench.dir.path()).unwrap();
    wait_until("the mark is there", || store.read_clock() == Some(mark));
    bench.writer.stop().unwrap();
}

#[test]
#[ignore = "measures a disk: run it alone, with TMPDIR on that disk"]
fn a_batch_is_cheaper_than_its_writes_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(dir.path()).unwrap());
    let writer = Writer::start(store).unwrap();
    let text = "x".repeat(1000);
    let submit = |n: u64| {
        writer.submit(Job::Write {
            id: id(n),
            text: text.clone(),
        })
    };
    let mut times: BTreeMap<&str, Duration> = BTreeMap::new();
    for _ in 0..3 {
        let start = Instant::now();
        for n in 0..100 {
            submit(n).blocking_recv().unwrap().unwrap();
        }
        let single = start.elapsed();
        let start = Instant::now();
        let answers: Vec<_> = (0..100).map(submit).collect();
        for answer in answers {
            answer.blocking_recv().unwrap().unwrap();
        }
        let batch = start.elapsed();
        for (what, time) in [("single", single), ("batch", batch)] {
            let least = times.entry(what).or_insert(time);
            *least = time.min(*least);
        }
    }
    println!("100 durable writes: {times:?}");
    assert!(times["batch"] < times["single"], "{times:?}");
    writer.stop().unwrap();
}
