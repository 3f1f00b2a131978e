//! The local delivery follows the clock wherever it goes.

use std::{collections::HashMap, sync::Arc};

use futures_util::FutureExt as _;
use lapse::{
    clock::ManualClock,
    delivery::{Delivery, Slot, local::Local},
};

use super::rig::at;

/// All slots that are there now.
fn there(local: &Local) -> Vec<Slot> {
    let mut slots = Vec::new();
    while let Some(slot) = local.next().now_or_never() {
        slots.push(slot);
    }
    slots
}

fn seconds(slots: &[Slot]) -> Vec<i64> {
    let mut seconds: Vec<i64> = slots.iter().map(|s| s.second - at(0).second()).collect();
    seconds.dedup();
    seconds
}

fn local() -> (Arc<ManualClock>, Local) {
    let clock = ManualClock::new(at(0));
    (clock.clone(), Local::new(clock, 3))
}

#[tokio::test]
async fn each_shard_of_a_second_comes_once_from_half_a_second_before() {
    let (clock, local) = local();
    assert_eq!(seconds(&there(&local)), [-4, -3, -2, -1, 0], "a start catches up with the last seconds");
    clock.set(at(499));
    assert!(there(&local).is_empty());
    clock.set(at(500));
    let second = at(1000).second();
    assert_eq!(there(&local), [0, 1, 2].map(|shard| Slot { shard, second }));
    clock.set(at(2600));
    assert_eq!(seconds(&there(&local)), [2, 3]);
}

#[tokio::test]
async fn after_a_jump_forwards_old_slots_are_not_replayed() {
    let (clock, local) = local();
    there(&local);
    clock.set(at(3_600_000));
    assert_eq!(seconds(&there(&local)), [3596, 3597, 3598, 3599, 3600]);
}

#[tokio::test]
async fn after_a_jump_back_nothing_comes_early_and_nothing_stalls() {
    let (clock, local) = local();
    there(&local);
    clock.set(at(-3_600_000));
    assert_eq!(seconds(&there(&local)), [-3600]);
    clock.set(at(-3_599_500));
    assert_eq!(seconds(&there(&local)), [-3599]);
    // A small step back repeats at most what a timer registered meanwhile could need.
    clock.set(at(-3_599_900));
    assert!(there(&local).is_empty());
    clock.set(at(-3_600_001));
    assert_eq!(seconds(&there(&local)), [-3601, -3600]);
}

/// Wherever the clock steps back to, what is registered from then on is either near or has a slot yet to come.
#[tokio::test]
async fn no_second_falls_between_a_slot_and_the_two_seconds_of_arming() {
    for back in (0..4000).step_by(250) {
        let (clock, local) = local();
        clock.set(at(10_000));
        there(&local);
        clock.set(at(10_000 - back));
        let mut yielded: HashMap<i64, usize> = HashMap::new();
        for step in 0..40 {
            clock.set(at(10_000 - back + step * 250));
            for slot in there(&local) {
                *yielded.entry(slot.second).or_default() += 1;
            }
        }
        // Due more than two seconds after the step back: only a slot can bring it.
        let first_far = at(10_000 - back + 2001);
        for second in first_far.second()..at(10_000 - back + 9_000).second() {
            assert!(yielded.contains_key(&second), "stepped back {back} ms: second {second} never came");
        }
    }
}
