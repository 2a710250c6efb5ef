//! The table of section 3, and what holds for every input.

use proptest::prelude::*;

use super::*;
use crate::worker::WorkerId;

const GRACE: i64 = 3600;
const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

/// `secs` before now.
fn ago(secs: i64) -> Option<Timestamp> {
    Some(NOW.plus(-secs * MICROS))
}

fn facts(
    status: Status,
    live: bool,
    pid_dead: bool,
    tree: Tree,
    exited: Option<Timestamp>,
) -> Facts {
    Facts {
        status,
        held: false,
        read_only: false,
        live: if live { Live::Yes } else { Live::No },
        pid_confirmed_dead: pid_dead,
        exited_at: exited,
        tree,
    }
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Reap => "reap",
        Decision::StampExit => "stamp",
        Decision::Ask(Probe::Worktree) => "ask",
        Decision::Keep(reason) => reason.word(),
    }
}

#[test]
fn the_table_of_the_specification_holds() {
    use Status::{Exited, Live, Orphaned, PermanentDead, Restarting, Spawning, Stopping};
    let dirty = || Tree::Dirty("1 untracked".into());
    let unknown = || Tree::Unknown("timed out".into());
    let table = [
        (
            facts(Exited, false, false, Tree::Clean, ago(GRACE + 1)),
            "reap",
        ),
        (facts(Exited, false, false, Tree::Clean, None), "stamp"),
        (
            facts(Exited, true, false, Tree::Clean, ago(9 * GRACE)),
            "live",
        ),
        (
            facts(Exited, false, false, dirty(), ago(9 * GRACE)),
            "worktree-dirty",
        ),
        (
            facts(Exited, false, false, unknown(), ago(9 * GRACE)),
            "worktree-unprobed",
        ),
        (
            facts(Exited, false, false, Tree::Clean, ago(1)),
            "within-grace",
        ),
        (
            facts(Exited, false, false, Tree::Clean, ago(GRACE)),
            "within-grace",
        ),
        (
            facts(Exited, false, false, Tree::NotOwned, ago(9 * GRACE)),
            "reap",
        ),
        (
            facts(Exited, false, false, Tree::NotAsked, ago(9 * GRACE)),
            "ask",
        ),
        (
            facts(Spawning, false, false, Tree::Clean, None),
            "not-terminal",
        ),
        (
            facts(Restarting, false, false, Tree::Clean, None),
            "not-terminal",
        ),
        (facts(Live, false, false, Tree::Clean, None), "not-terminal"),
        (facts(Live, false, true, Tree::Clean, None), "stamp"),
        (
            facts(Stopping, true, true, Tree::Clean, ago(9 * GRACE)),
            "live",
        ),
        (
            facts(PermanentDead, false, false, Tree::Clean, ago(9 * GRACE)),
            "reap",
        ),
        (
            facts(Orphaned, false, false, Tree::Clean, ago(9 * GRACE)),
            "reap",
        ),
    ];
    for (facts, expected) in table {
        assert_eq!(word(&decide(&facts, NOW, GRACE)), expected, "{facts:?}");
    }
}

#[test]
fn a_held_row_stays_whatever_else_is_true() {
    let mut held = facts(Status::Exited, false, true, Tree::Clean, ago(9 * GRACE));
    held.held = true;
    assert_eq!(word(&decide(&held, NOW, GRACE)), "held");
}

#[test]
fn a_row_of_a_newer_version_is_never_collected() {
    let mut newer = facts(Status::Exited, false, true, Tree::Clean, ago(9 * GRACE));
    newer.read_only = true;
    assert_eq!(word(&decide(&newer, NOW, GRACE)), "newer-schema");
}

#[test]
fn unknown_liveness_keeps_the_row() {
    let mut doubt = facts(Status::Exited, false, true, Tree::Clean, ago(9 * GRACE));
    doubt.live = Live::Unknown("/proc is not readable".into());
    assert_eq!(word(&decide(&doubt, NOW, GRACE)), "liveness-unknown");
}

#[test]
fn grace_ends_strictly_after_its_last_microsecond() {
    let row = facts(Status::Exited, false, false, Tree::NotOwned, Some(NOW));
    let at = |micros| decide(&row, NOW.plus(micros), GRACE);
    let left = |left| Decision::Keep(KeepReason::WithinGrace { left });
    assert_eq!(at(0), left(GRACE));
    assert_eq!(at(1), left(GRACE));
    assert_eq!(at(GRACE * MICROS - 1), left(1));
    assert_eq!(at(GRACE * MICROS), left(0));
    assert_eq!(at(GRACE * MICROS + 1), Decision::Reap);
}

#[test]
fn a_death_in_the_future_is_within_grace_and_wants_a_new_stamp() {
    let later = NOW.plus(5 * MICROS);
    let row = facts(Status::Exited, false, false, Tree::NotOwned, Some(later));
    for grace in [GRACE, 0, -1, -3600, i64::MIN] {
        assert_eq!(word(&decide(&row, NOW, grace)), "within-grace", "{grace}");
    }
    assert!(needs_restamp(later, NOW));
    assert!(!needs_restamp(NOW, NOW));
}

#[test]
fn only_a_forward_jump_of_over_an_hour_is_made_up_for() {
    let hour = 3600 * MICROS;
    assert_eq!(jump_correction(5, 5 + hour), None);
    assert_eq!(jump_correction(5, 6 + hour), Some(hour + 1));
    assert_eq!(jump_correction(0, -9 * hour), None);
    assert_eq!(jump_correction(i64::MIN, i64::MAX), Some(i64::MAX));
    // Dead for a minute when the clock jumped a day ahead: still dead for a minute.
    let jump = 24 * hour;
    let died = NOW.plus(-60 * MICROS);
    let after = NOW.plus(jump);
    assert_eq!(
        shifted_by_jump(died, after, GRACE, jump),
        Some(died.plus(jump))
    );
    let long_dead = NOW.plus(-2 * hour);
    assert_eq!(shifted_by_jump(long_dead, after, GRACE, jump), None);
}

fn any_time() -> impl Strategy<Value = Timestamp> {
    let near = (-8_000..8_000_i64).prop_map(|s| NOW.plus(s * MICROS));
    prop_oneof![near, any::<i64>().prop_map(Timestamp)]
}

fn any_grace() -> impl Strategy<Value = i64> {
    prop_oneof![-10..8_000_i64, any::<i64>()]
}

fn any_tree() -> impl Strategy<Value = Tree> {
    prop_oneof![
        Just(Tree::NotOwned),
        Just(Tree::NotAsked),
        Just(Tree::Clean),
        Just(Tree::InUse(WorkerId::from_bits(7))),
        Just(Tree::Dirty("d".into())),
        Just(Tree::Unknown("u".into())),
    ]
}

prop_compose! {
    fn any_facts()(
        status in proptest::sample::select(Status::ALL),
        held in proptest::bool::weighted(0.1),
        read_only in proptest::bool::weighted(0.1),
        live in prop_oneof![
            1 => Just(Live::Yes),
            4 => Just(Live::No),
            1 => Just(Live::Unknown("?".into())),
        ],
        pid_confirmed_dead in any::<bool>(),
        exited_at in proptest::option::weighted(0.9, any_time()),
        tree in any_tree(),
    ) -> Facts {
        Facts { status, held, read_only, live, pid_confirmed_dead, exited_at, tree }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn a_row_is_reaped_only_if_nothing_speaks_for_it(
        facts in any_facts(), now in any_time(), grace in any_grace(),
    ) {
        if decide(&facts, now, grace) == Decision::Reap {
            prop_assert!(!facts.held && !facts.read_only);
            prop_assert_eq!(&facts.live, &Live::No);
            prop_assert!(facts.status.is_terminal() || facts.pid_confirmed_dead);
            prop_assert!(!matches!(facts.status, Status::Spawning | Status::Restarting));
            prop_assert!(matches!(facts.tree, Tree::NotOwned | Tree::Clean));
            let exited = facts.exited_at.expect("a row reaped has been seen dead");
            let age = i128::from(now.0) - i128::from(exited.0);
            prop_assert!(age >= 0 && age > i128::from(grace) * i128::from(MICROS));
        }
    }

    #[test]
    fn a_question_is_asked_only_if_its_answer_matters_and_only_once(
        facts in any_facts(), now in any_time(), grace in any_grace(), answer in any_tree(),
    ) {
        if decide(&facts, now, grace) == Decision::Ask(Probe::Worktree) {
            prop_assert_eq!(&facts.tree, &Tree::NotAsked);
            let clean = decide(&facts.clone().with_tree(Tree::Clean), now, grace);
            prop_assert_eq!(clean, Decision::Reap);
            let dirty = facts.clone().with_tree(Tree::Dirty(String::new()));
            prop_assert_ne!(decide(&dirty, now, grace), Decision::Reap);
            if answer != Tree::NotAsked {
                let second = decide(&facts.with_tree(answer), now, grace);
                prop_assert!(!matches!(second, Decision::Ask(_)));
            }
        }
    }

    #[test]
    fn a_row_that_may_go_may_go_ever_after(
        facts in any_facts(), now in any_time(), grace in any_grace(), later in 0..i64::MAX,
    ) {
        if decide(&facts, now, grace) == Decision::Reap {
            prop_assert_eq!(decide(&facts, now.plus(1), grace), Decision::Reap);
            prop_assert_eq!(decide(&facts, now.plus(later), grace), Decision::Reap);
        }
    }

    #[test]
    fn the_seconds_left_are_the_truth(
        facts in any_facts(), age in -8_000_000_000..8_000_000_000_i64, grace in 0..8_000_i64,
    ) {
        let facts = Facts { exited_at: Some(NOW.plus(-age)), ..facts };
        if let Decision::Keep(KeepReason::WithinGrace { left }) = decide(&facts, NOW, grace) {
            prop_assert!(left >= 0);
            let then = decide(&facts, NOW.plus(left * MICROS + 1), grace);
            prop_assert_ne!(word(&then), "within-grace");
        }
    }

    #[test]
    fn the_helpers_of_the_clock_never_panic(a in any::<i64>(), b in any::<i64>(), c in any::<i64>(), d in any::<i64>()) {
        let _ = jump_correction(a, b);
        let _ = shifted_by_jump(Timestamp(a), Timestamp(b), c, d);
        let _ = needs_restamp(Timestamp(a), Timestamp(b));
    }
}
