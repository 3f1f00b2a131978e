//! What every driver must do, through the store's public seam. A driver's own file calls `conformance!` with a function
//! that makes a fresh [`Bed`].

use lapse::{
    domain::{
        compensation::{CompensationState, RunResult},
        decision::FailureClass,
        machine::{Command, Settle},
        time::Timestamp,
        timer::{Due, State, Trigger},
    },
    store::op::{
        Acted, ClaimBacklog, ClaimCompensations, Claimed, Inserted, Redrive, RedriveWhich, Redriven, Remember, Settled,
        Target,
    },
};

use super::bed::{Bed, act, close, compensation, failure, key, kinds, ms, name, secs, settlement};

macro_rules! conformance {
    ($bed:path: $($test:ident,)*) => {
        $(
            #[tokio::test]
            async fn $test() {
                $crate::store::conformance::$test($bed().await).await;
            }
        )*
    };
    ($bed:path) => {
        $crate::store::conformance::conformance! { $bed:
            a_registration_is_stored_byte_for_byte,
            the_same_registration_again_is_the_same_timer,
            a_settled_timer_closes_with_its_compensations_once,
        }
    };
}
pub(super) use conformance;

pub async fn a_registration_is_stored_byte_for_byte(bed: Bed) {
    let timer = bed.register("Käse/☕ .%00", Due::After(secs(60))).await;
    let read = bed.store.read();
    assert_eq!(read.timer(timer.id).await.unwrap(), Some(timer.clone()));
    assert_eq!(read.timer_by_key(bed.type_id, timer.key.clone()).await.unwrap(), Some(timer.clone()));
    assert_eq!(timer.run_at, Some(bed.now().saturating_add(secs(60))));
    assert_eq!(timer.version, 1);
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}

pub async fn the_same_registration_again_is_the_same_timer(bed: Bed) {
    let first = bed.register("A17", Due::After(secs(60))).await;
    bed.clock.advance(secs(5));
    let again = bed.store.insert(bed.new_timer("A17", Due::After(secs(60)))).await.unwrap();
    assert!(matches!(again, Inserted::Same(t) if t == first));
    let mut other = bed.new_timer("A17", Due::After(secs(60)));
    other.fingerprint = [9; 32];
    assert!(matches!(bed.store.insert(other).await.unwrap(), Inserted::Conflict(t) if t == first));
}

pub async fn a_settled_timer_closes_with_its_compensations_once(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let (closed, ids) = bed.close(&timer, 3).await;
    assert_eq!((closed.state, closed.run_at, closed.version), (State::Closed, None, 5));
    assert_eq!(bed.timer(timer.id).await, closed);
    let again = bed.settle(&timer, close()).await;
    assert!(matches!(again, Settled::Lost(t) if t == closed));
    let lanes = bed.store.read().compensation_lanes(bed.now()).await.unwrap();
    assert_eq!(lanes, [(bed.type_id, name("release"))]);
    for id in ids {
        let made = bed.store.read().compensation(id).await.unwrap().unwrap();
        assert_eq!((made.state, made.attempt, made.run_at), (CompensationState::Pending, 1, Some(bed.now())));
    }
    let events = bed.events(timer.id).await;
    assert_eq!(
        kinds(&events),
        ["registered", "closed", "compensation_created", "compensation_created", "compensation_created"]
    );
    assert_eq!(bed.verify(timer.id).await, Ok(()));
}
