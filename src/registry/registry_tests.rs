use proptest::prelude::*;

use super::*;
use crate::worker::{Exit, HowKnown, Kind, Outcome, Timestamp};

const ANA: Owner = Owner {
    uid: 1000,
    gid: 1000,
};
const BOB: Owner = Owner {
    uid: 1001,
    gid: 1001,
};

fn id(text: &str) -> WorkerId {
    text.parse().unwrap()
}

fn row(text: &str, name: &str, owner: Owner, status: Status, created: i64) -> Row {
    let mut row = Row::new(id(text), owner, Timestamp(created));
    row.name = name.to_owned();
    row.status = status;
    row
}

fn with(rows: impl IntoIterator<Item = Row>) -> Registry {
    let mut roll = Registry::new();
    for row in rows {
        roll.insert(row, None).unwrap();
    }
    roll
}

fn find(roll: &Registry, text: &str) -> Result<WorkerId, ResolveError> {
    roll.resolve(text, |_| true)
}

#[test]
fn descendants_are_found_once_each_even_where_edited_files_name_parents_in_a_circle() {
    let below = |text, parent: &str| {
        let mut row = row(text, "", ANA, Status::Live, 1);
        row.parent = Some(id(parent));
        row
    };
    let roll = with([
        below("aaaaaaa1", "ccccccc1"),
        below("bbbbbbb1", "aaaaaaa1"),
        below("ccccccc1", "bbbbbbb1"),
        below("ddddddd1", "ddddddd1"),
    ]);
    let (a, b, c) = (id("aaaaaaa1"), id("bbbbbbb1"), id("ccccccc1"));
    assert_eq!(roll.descendants_of(a), [(a, b), (b, c)]);
    assert_eq!(roll.descendants_of(id("ddddddd1")), []);
}

#[test]
fn a_text_resolves_in_the_documented_order() {
    use Status::{Exited, Live};
    let mut helper = row("hhhhhhh1", "", ANA, Live, 5);
    helper.kind = Kind::Subagent {
        handle: "ada".into(),
    };
    let roll = with([
        row("aaaaaaa1", "", ANA, Live, 1),
        // Its name is another row's id, and another's prefix.
        row("bbbbbbb1", "aaaaaaa1", ANA, Live, 2),
        row("ccccccc1", "build", ANA, Exited, 3),
        row("ccccccc2", "build", ANA, Exited, 4),
        row("ddddddd1", "test", ANA, Exited, 9),
        row("ddddddd2", "test", ANA, Live, 1),
        row("eeeeeee1", "aaaa", ANA, Exited, 1),
        row("fffffff1", "subagent:ada", ANA, Exited, 1),
        helper,
    ]);
    for (text, wanted) in [
        ("aaaaaaa1", "aaaaaaa1"),
        ("test", "ddddddd2"),
        ("build", "ccccccc2"),
        ("subagent:ada", "fffffff1"),
        ("aaaa", "eeeeeee1"),
        ("aaa", "aaaaaaa1"),
        ("b", "bbbbbbb1"),
        ("ddddddd2", "ddddddd2"),
    ] {
        assert_eq!(find(&roll, text), Ok(id(wanted)), "{text}");
    }
    let both = vec![id("ccccccc1"), id("ccccccc2")];
    assert_eq!(find(&roll, "ccc"), Err(ResolveError::Ambiguous(both)));
    for text in [
        "",
        "zz",
        "0",
        "Build",
        "subagent:",
        "subagent:bob",
        "aaaaaaa12",
        "é",
        "../x",
    ] {
        assert_eq!(find(&roll, text), Err(ResolveError::NoSuch), "{text}");
    }
}

#[test]
fn a_handle_means_the_living_helper_before_the_newest_dead_one() {
    let helper = |text: &str, status, created| {
        let mut row = row(text, "", ANA, status, created);
        row.kind = Kind::Subagent {
            handle: "ada".into(),
        };
        row
    };
    let mut roll = with([
        helper("aaaaaaa1", Status::Live, 1),
        helper("aaaaaaa2", Status::Exited, 2),
        helper("aaaaaaa3", Status::Exited, 3),
    ]);
    assert_eq!(find(&roll, "subagent:ada"), Ok(id("aaaaaaa1")));
    roll.remove(id("aaaaaaa1"));
    assert_eq!(find(&roll, "subagent:ada"), Ok(id("aaaaaaa3")));
}

#[test]
fn what_the_caller_does_not_see_is_not_there() {
    let roll = with([
        row("aaaaaaa1", "build", ANA, Status::Live, 1),
        row("aaaaaaa2", "build", BOB, Status::Live, 2),
        row("aaaaaaa3", "old", BOB, Status::Exited, 3),
    ]);
    let anas = |row: &Row| row.owner == ANA;
    assert_eq!(roll.resolve("build", anas), Ok(id("aaaaaaa1")));
    assert_eq!(roll.resolve("aaa", anas), Ok(id("aaaaaaa1")));
    assert_eq!(roll.resolve("aaaaaaa2", anas), Err(ResolveError::NoSuch));
    assert_eq!(roll.resolve("old", anas), Err(ResolveError::NoSuch));
    assert!(matches!(find(&roll, "build"), Err(ResolveError::Ambiguous(ids)) if ids.len() == 2));
}

#[test]
fn an_ambiguity_names_at_most_sixteen() {
    let roll = with((0..100).map(|n| {
        let mut row = row("aaaaaaa1", "", ANA, Status::Live, 1);
        row.id = WorkerId::from_bits(n << 10 << 5);
        row
    }));
    let Err(ResolveError::Ambiguous(ids)) = find(&roll, "0") else {
        panic!("not ambiguous");
    };
    assert_eq!(ids.len(), CANDIDATES_MAX);
    assert!(ids.is_sorted());
}

#[test]
fn a_name_is_taken_by_a_row_of_the_same_owner_that_has_not_ended() {
    let mut roll = with([
        row("aaaaaaa1", "build", ANA, Status::Live, 1),
        row("aaaaaaa2", "", ANA, Status::Live, 1),
    ]);
    assert_eq!(roll.name_taken(ANA.uid, "build"), Some(id("aaaaaaa1")));
    assert_eq!(roll.name_taken(BOB.uid, "build"), None);
    assert_eq!(roll.name_taken(ANA.uid, ""), None);
    roll.update(id("aaaaaaa1"), |row| row.status = Status::Exited)
        .unwrap();
    assert_eq!(roll.name_taken(ANA.uid, "build"), None);
    assert_eq!(roll.by_name(ANA.uid, "build"), Some(id("aaaaaaa1")));
    assert_eq!(roll.by_name(BOB.uid, "build"), None);
}

#[test]
fn the_first_terminal_write_wins() {
    let mut roll = with([row("aaaaaaa1", "", ANA, Status::Live, 1)]);
    let id = id("aaaaaaa1");
    let end = |outcome, exit| {
        move |row: &mut Row| {
            row.status = Status::Exited;
            row.outcome = Some(outcome);
            row.exit = Some(exit);
            row.how_known = Some(HowKnown::Waited);
        }
    };
    assert_eq!(
        roll.finish(id, end(Outcome::Completed, Exit::Code(0))),
        Ok(Finished::Now(1))
    );
    let second = roll.finish(id, end(Outcome::Crashed, Exit::Signal(9)));
    assert_eq!(second, Ok(Finished::Already(1)));
    // Nor by the side door; other fields may still change.
    let by_update = roll.update(id, |row| {
        end(Outcome::Crashed, Exit::Signal(9))(row);
        row.status = Status::Live;
        row.held = true;
    });
    assert_eq!(by_update, Ok(2));
    let row = roll.get(id).unwrap();
    assert_eq!(
        (row.status, row.outcome),
        (Status::Exited, Some(Outcome::Completed))
    );
    assert_eq!((row.exit, row.held), (Some(Exit::Code(0)), true));
}

#[test]
fn a_newer_row_is_shown_and_never_changed() {
    let mut roll = Registry::new();
    roll.insert_newer(row("aaaaaaa1", "x", ANA, Status::Exited, 1), 7)
        .unwrap();
    let id = id("aaaaaaa1");
    assert!(roll.is_read_only(id));
    assert_eq!(roll.entry(id).and_then(Entry::newer_schema), Some(7));
    assert_eq!(
        roll.update(id, |row| row.held = true),
        Err(ChangeError::ReadOnly(id))
    );
    assert_eq!(roll.finish(id, |_| {}), Err(ChangeError::ReadOnly(id)));
    assert_eq!(roll.encode(id), None);
    assert!(!roll.get(id).unwrap().held);
}

#[test]
fn an_id_is_on_the_roll_once() {
    let mut roll = with([row("aaaaaaa1", "one", ANA, Status::Live, 1)]);
    let back = roll.insert(row("aaaaaaa1", "two", ANA, Status::Live, 1), None);
    assert_eq!(back.unwrap_err().name, "two");
    assert_eq!(roll.name_taken(ANA.uid, "two"), None);
    assert_eq!(roll.count_of(Status::Live), 1);
}

#[test]
fn a_row_takes_little_memory() {
    // 1.5 KiB for a finished row leaves so much for its texts and its places in the indexes.
    let size = size_of::<Row>() + size_of::<Entry>();
    assert!(size <= 900, "{size}");
}

#[derive(Debug, Clone)]
enum Act {
    Insert(Box<Row>),
    Update(u64, Status, String, u32),
    Remove(u64),
}

fn few_ids() -> impl Strategy<Value = u64> {
    0..12u64
}

fn act() -> impl Strategy<Value = Act> {
    let status = || proptest::sample::select(Status::ALL);
    let name = || proptest::sample::select(&["", "a", "b"][..]).prop_map(str::to_owned);
    prop_oneof![
        (
            few_ids(),
            status(),
            name(),
            0..3u32,
            proptest::option::of(few_ids())
        )
            .prop_map(|(n, status, name, uid, parent)| {
                let owner = Owner { uid, gid: 0 };
                let mut row = Row::new(WorkerId::from_bits(n), owner, Timestamp(n as i64));
                row.status = status;
                row.kind = Kind::Subagent {
                    handle: name.clone(),
                };
                row.name = name;
                row.parent = parent.map(WorkerId::from_bits);
                Act::Insert(Box::new(row))
            }),
        (few_ids(), status(), name(), 0..3u32)
            .prop_map(|(n, s, name, uid)| Act::Update(n, s, name, uid)),
        few_ids().prop_map(Act::Remove),
    ]
}

proptest! {
    #[test]
    fn counts_and_indexes_agree_with_the_rows(acts in prop::collection::vec(act(), 0..60)) {
        let mut roll = Registry::new();
        for act in acts {
            match act {
                Act::Insert(row) => {
                    let _ = roll.insert(*row, None);
                }
                Act::Update(n, status, name, uid) => {
                    let _ = roll.update(WorkerId::from_bits(n), |row| {
                        row.status = status;
                        row.name = name;
                        row.owner.uid = uid;
                    });
                }
                Act::Remove(n) => {
                    roll.remove(WorkerId::from_bits(n));
                }
            }
        }
        let rows: Vec<Row> = roll.iter().cloned().collect();
        prop_assert!(rows.is_sorted_by_key(|r| r.id));
        prop_assert_eq!(rows.len(), roll.len());
        for (status, count) in roll.counts() {
            prop_assert_eq!(count, rows.iter().filter(|r| r.status == status).count() as u64);
        }
        for uid in 0..3 {
            let own: Vec<_> = rows.iter().filter(|r| r.owner.uid == uid).collect();
            let active = own.iter().filter(|r| !r.status.is_terminal()).count() as u64;
            let wanted = OwnerCount { rows: own.len() as u64, active };
            prop_assert_eq!(roll.count_of_owner(uid), wanted);
            for name in ["a", "b"] {
                let taken = own.iter().any(|r| r.name == name && !r.status.is_terminal());
                prop_assert_eq!(roll.name_taken(uid, name).is_some(), taken);
                let known = own.iter().any(|r| r.name == name);
                prop_assert_eq!(roll.by_name(uid, name).is_some(), known);
            }
        }
        for parent in (0..12).map(WorkerId::from_bits) {
            let children: Vec<_> = roll.children_of(parent).collect();
            let wanted: Vec<_> =
                rows.iter().filter(|r| r.parent == Some(parent)).map(|r| r.id).collect();
            prop_assert_eq!(children, wanted);
        }
        let all: Vec<WorkerId> = rows.iter().map(|r| r.id).collect();
        let mut paged = Vec::new();
        while let Some(row) = roll.iter_after(paged.last().copied()).next() {
            paged.push(row.id);
        }
        prop_assert_eq!(paged, all);
        for row in &rows {
            roll.remove(row.id);
        }
        prop_assert!(roll.names.is_empty() && roll.handles.is_empty());
        prop_assert!(roll.children.is_empty() && roll.by_owner.is_empty());
    }
}
