//! Both databases write the same audit, byte for byte.

use lapse::{
    clock::ManualClock,
    domain::{
        compensation::RunResult,
        decision::FailureClass,
        id::{CompensationId, TimerId},
        machine::{Command, Settle},
        timer::Due,
    },
    store::op::{Acted, ClaimBacklog, ClaimCompensations, Claimed, Redrive, RedriveWhich, Remember, Target},
};
use uuid::Uuid;

use super::{
    bed::{Bed, act, close, compensation, failure, finish, key, name, noon, secs, settlement},
    postgres, sqlite,
};

/// Ids that are the same in both.
fn id(n: u128) -> Uuid {
    Uuid::from_u128((7 << 76) | n)
}

/// Every kind of event, on a handful of timers; says what was written of each.
async fn live(bed: Bed) -> Vec<(String, [u8; 32])> {
    let mut timers = Vec::new();
    for n in 0..6u128 {
        let mut new = bed.new_timer(&format!("order-{n}"), Due::After(secs(10)));
        new.id = TimerId(id(n));
        bed.store.insert(new).await.unwrap();
        timers.push(bed.timer(TimerId(id(n))).await);
    }
    bed.clock.advance(secs(1));
    bed.act(&timers[0], Command::Reschedule(Due::After(secs(5)))).await;
    bed.act(&timers[1], Command::Fire).await;
    bed.clock.advance(secs(60));

    let mut closing = settlement(&bed.timer(timers[0].id).await, close());
    closing.compensations = (0..3).map(|n| (CompensationId(id(100 + n)), compensation("release", 1).1)).collect();
    let mut follow_up = bed.new_timer("follow-up", Due::After(secs(30)));
    follow_up.id = TimerId(id(50));
    let taken = bed.new_timer("order-3", Due::After(secs(30)));
    closing.follow_ups = vec![follow_up, taken];
    bed.store.settle(closing).await.unwrap();

    let at = bed.now().saturating_add(secs(5));
    let retry = Settle::Retry { at, reason: "later".into(), failure: Some(failure(FailureClass::Transient)) };
    bed.settle(&bed.timer(timers[1].id).await, retry).await;
    let Claimed::Done(claimed) = bed.claim(&timers[2], secs(10)).await else { panic!("it is due") };
    bed.settle(&claimed, Settle::Release { at, reason: "stopping".into(), ran: false }).await;
    bed.settle(&timers[3], Settle::Fail { failure: failure(FailureClass::Permanent) }).await;
    bed.act(&timers[3], Command::Retry).await;
    bed.act(&timers[4], Command::Cancel).await;
    bed.clock.advance(secs(20));
    let backlog = ClaimBacklog {
        limits: vec![(bed.type_id, 1)],
        before: bed.now(),
        lease: secs(5),
        node: "node-1".into(),
        except: vec![],
    };
    for _ in 0..2 {
        bed.store.claim_backlog(backlog.clone()).await.unwrap();
        bed.clock.advance(secs(6));
    }
    let mut remembering = act(Target::Key { type_id: bed.type_id, key: key("never-seen") }, Command::Resolve);
    remembering.remember = Some(Remember { id: TimerId(id(51)), namespace_id: bed.namespace, revision: 1 });
    assert!(matches!(bed.store.act(remembering).await.unwrap(), Acted::Done(_)));

    let lane = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit: 1, lease: secs(60) };
    let results = [
        RunResult::Done { result: Some("{}".into()), skipped: Some(failure(FailureClass::Conflict)) },
        RunResult::Retry { failure: failure(FailureClass::Downstream), at: bed.now(), counts: true },
        RunResult::Dead { failure: failure(FailureClass::Permanent) },
    ];
    for result in results {
        let run = bed.store.claim_compensations(lane.clone()).await.unwrap().remove(0);
        assert!(bed.store.finish_compensation(finish(run.id, run.fence, result)).await.unwrap());
    }
    let redrive = Redrive {
        namespace_id: bed.namespace,
        which: RedriveWhich::Filter { type_id: None, kind: Some(name("release")), limit: 10 },
        to_active: false,
        note: "mended".into(),
        actor: "key:test".into(),
    };
    bed.store.redrive(redrive).await.unwrap();

    let mut written = Vec::new();
    for id in timers.iter().map(|t| t.id).chain([TimerId(id(50)), TimerId(id(51))]) {
        assert_eq!(bed.verify(id).await, Ok(()));
        written.extend(bed.events(id).await.into_iter().map(|event| (event.body, event.mac)));
    }
    written
}

#[tokio::test]
async fn both_databases_write_the_same_audit() {
    let on_sqlite = live(sqlite::bed().await).await;
    let on_postgres = live(postgres::bed_at(ManualClock::new(noon())).await).await;
    assert!(on_sqlite.len() > 25, "{}", on_sqlite.len());
    for (one, other) in on_sqlite.iter().zip(&on_postgres) {
        assert_eq!(one, other);
    }
    assert_eq!(on_sqlite.len(), on_postgres.len());
}
