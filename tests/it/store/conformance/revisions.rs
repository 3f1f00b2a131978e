//! Revisions that go out of use, and what holds on to them.

use lapse::{
    domain::{
        compensation::RunResult,
        decision::FailureClass,
        id::{CompensationId, Digest},
        machine::{Command, Settle},
        timer::{Due, Timer},
    },
    store::{
        admin::{AdminAnswer, AdminOp, Holder, PutType},
        op::{Acted, ClaimCompensations, Inserted, Redrive, RedriveWhich, Redriven, Settled},
    },
};

use crate::store::bed::{Bed, close, compensation, failure, name, put_type, secs, settlement};

fn with_config(bed: &Bed, config: &str) -> PutType {
    PutType { config: config.into(), ..put_type(bed.namespace, "order-timeout") }
}

/// Another revision, which becomes the active one.
async fn upgrade(bed: &Bed, config: &str) -> i64 {
    match bed.store.admin(AdminOp::PutType(with_config(bed, config))).await.unwrap() {
        AdminAnswer::Type { revision, .. } => revision.number,
        other => panic!("{other:?}"),
    }
}

async fn delete(bed: &Bed, number: i64) -> AdminAnswer {
    let delete = AdminOp::DeleteRevision { namespace_id: bed.namespace, name: name("order-timeout"), number };
    bed.store.admin(delete).await.unwrap()
}

fn in_use(answer: &AdminAnswer) -> (bool, u64, u64) {
    match answer {
        AdminAnswer::RevisionInUse { active, timers, compensations } => (*active, *timers, *compensations),
        other => panic!("{other:?}"),
    }
}

/// Runs the one compensation that waits.
async fn finish(bed: &Bed, result: RunResult) -> CompensationId {
    let claim = ClaimCompensations { type_id: bed.type_id, kind: name("release"), limit: 10, lease: secs(60) };
    let run = bed.store.claim_compensations(claim).await.unwrap().remove(0);
    assert!(bed.store.finish_compensation(crate::store::bed::finish(run.id, run.fence, result)).await.unwrap());
    run.id
}

async fn dead_compensation(bed: &Bed, timer: &Timer) -> CompensationId {
    bed.close(timer, 1).await;
    finish(bed, RunResult::Dead { failure: failure(FailureClass::Permanent) }).await
}

fn redrive(bed: &Bed, id: CompensationId, to_active: bool) -> Redrive {
    Redrive {
        namespace_id: bed.namespace,
        which: RedriveWhich::One(id),
        to_active,
        note: "mended".into(),
        actor: "key:ops".into(),
    }
}

pub async fn a_revision_is_deleted_once_nothing_needs_it(bed: Bed) {
    let timer = bed.due_timer("A17").await;
    let other = bed.due_timer("B4").await;
    assert_eq!(in_use(&delete(&bed, 1).await), (true, 2, 0), "it is the active one");
    assert_eq!(upgrade(&bed, "{\"a\":2}").await, 2);
    assert_eq!(in_use(&delete(&bed, 1).await), (false, 2, 0));

    // A failed timer may be retried, and a dead compensation redriven.
    let failed = Settle::Fail { failure: failure(FailureClass::Permanent) };
    assert!(matches!(bed.settle(&other, failed).await, Settled::Done { .. }));
    let dead = dead_compensation(&bed, &timer).await;
    assert_eq!(in_use(&delete(&bed, 1).await), (false, 1, 1));
    assert!(matches!(bed.act(&other, Command::Cancel).await, Acted::Done(_)));
    assert_eq!(in_use(&delete(&bed, 1).await), (false, 0, 1));
    bed.store.redrive(redrive(&bed, dead, false)).await.unwrap();
    assert_eq!(in_use(&delete(&bed, 1).await), (false, 0, 1));
    finish(&bed, RunResult::Done { result: None, skipped: None }).await;

    let before = bed.store.read().catalogue_version().await.unwrap();
    assert!(matches!(delete(&bed, 1).await, AdminAnswer::Deleted));
    assert!(matches!(delete(&bed, 1).await, AdminAnswer::Deleted), "and stays so");
    assert!(matches!(delete(&bed, 7).await, AdminAnswer::NotFound));
    let catalogue = bed.store.read().catalogue().await.unwrap();
    assert_eq!(catalogue.version, before + 1);
    assert!(catalogue.revision(bed.type_id, 1).is_none() && catalogue.revision(bed.type_id, 2).is_some());
    let back = AdminOp::Activate { namespace_id: bed.namespace, name: name("order-timeout"), number: 1 };
    assert!(matches!(bed.store.admin(back).await.unwrap(), AdminAnswer::NotFound));
    assert_eq!(upgrade(&bed, "{}").await, 3, "a number is never given twice");
}

pub async fn a_plugin_is_deleted_once_no_revision_has_it(bed: Bed) {
    let digest = Digest::of(b"a component");
    let delete_plugin = || AdminOp::DeletePlugin { namespace_id: bed.namespace, digest };
    let holders = |answer| match answer {
        AdminAnswer::PluginInUse(holders) => holders,
        other => panic!("{other:?}"),
    };
    let held = |number, deleted_at| Holder { timer_type: name("order-timeout"), number, deleted_at };
    bed.put_plugin(bed.namespace, b"a better component").await;
    let better = PutType { digest: Digest::of(b"a better component"), ..with_config(&bed, "{}") };
    bed.store.admin(AdminOp::PutType(better)).await.unwrap();
    assert_eq!(holders(bed.store.admin(delete_plugin()).await.unwrap()), [held(1, None)]);

    assert!(matches!(delete(&bed, 1).await, AdminAnswer::Deleted));
    let deleted_at = bed.store.read().catalogue().await.unwrap().revisions[0].1.deleted_at;
    assert!(deleted_at.is_some());
    assert_eq!(holders(bed.store.admin(delete_plugin()).await.unwrap()), [held(1, deleted_at)], "for a minute");
    // A node that had not heard of the deletion.
    let late = bed.register("late", Due::After(secs(3600))).await;
    bed.clock.advance(secs(61));
    assert_eq!(
        holders(bed.store.admin(delete_plugin()).await.unwrap()),
        [held(1, deleted_at)],
        "something stands there"
    );
    assert!(matches!(bed.act(&late, Command::Cancel).await, Acted::Done(_)));
    assert!(matches!(bed.store.admin(delete_plugin()).await.unwrap(), AdminAnswer::Deleted));
    assert!(matches!(bed.store.admin(delete_plugin()).await.unwrap(), AdminAnswer::NotFound));
    assert_eq!(bed.store.read().plugin_bytes(bed.namespace, digest).await.unwrap(), None);
    assert!(matches!(bed.put_plugin(bed.namespace, b"a component").await, AdminAnswer::Plugin { created: true, .. }));
}

pub async fn a_redrive_may_go_to_the_active_revision(bed: Bed) {
    let dead = dead_compensation(&bed, &bed.due_timer("A17").await).await;
    upgrade(&bed, "{\"a\":2}").await;
    let one = |redriven| match redriven {
        Redriven::One(compensation) => compensation,
        other => panic!("{other:?}"),
    };
    assert_eq!(one(bed.store.redrive(redrive(&bed, dead, false)).await.unwrap()).revision, 1, "that which decided it");
    finish(&bed, RunResult::Dead { failure: failure(FailureClass::Permanent) }).await;
    assert_eq!(one(bed.store.redrive(redrive(&bed, dead, true)).await.unwrap()).revision, 2);
    let now = bed.store.read().compensation(dead).await.unwrap().unwrap();
    assert_eq!(now.revision, 2);
    let events = bed.events(now.timer_id).await;
    assert_eq!(events.last().unwrap().event.detail["revision"], 2);
    assert_eq!(bed.verify(now.timer_id).await, Ok(()));
    assert!(matches!(delete(&bed, 1).await, AdminAnswer::Deleted), "nothing stands under the first any more");
}

pub async fn what_stands_under_a_revision_is_read_up_to_a_bound(bed: Bed) {
    for n in 0..5 {
        let mut timer = bed.new_timer(&format!("k{n}"), Due::After(secs(60)));
        timer.payload = format!("{{\"n\":{n}}}");
        timer.pinned = n == 3;
        assert!(matches!(bed.store.insert(timer).await.unwrap(), Inserted::Created(_)));
    }
    let closed = bed.due_timer("over").await;
    let mut settlement = settlement(&closed, close());
    settlement.compensations = vec![compensation("release", 0)];
    bed.store.settle(settlement).await.unwrap();
    let under = |limit| bed.store.read().payloads_under(bed.type_id, 1, limit);
    let mut all = under(100).await.unwrap();
    all.sort();
    let payload = |n| Some(format!("{{\"n\":{n}}}"));
    assert_eq!(all, [None, payload(0), payload(1), payload(2), payload(4)], "a pinned one's is nobody's business");
    assert_eq!(under(2).await.unwrap().len(), 2);
    assert!(bed.store.read().payloads_under(bed.type_id, 2, 100).await.unwrap().is_empty());
}
