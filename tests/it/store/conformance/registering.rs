//! Registration, and what is due.

use lapse::{
    domain::{
        id::TimerId,
        machine::Command,
        time::{DurationMs, Timestamp},
        timer::{Due, NewTimer, State},
    },
    store::{op::Inserted, read::DueQuery},
};

use crate::store::bed::{Bed, kinds, ms, secs};

pub async fn what_is_registered_is_stored_byte_for_byte(bed: Bed) {
    let timer = bed.register("Käse/☕ .%00 e\u{301}", Due::After(secs(60))).await;
    assert_eq!(bed.timer(timer.id).await, timer);
    let by_key = bed.store.read().timer_by_key(bed.type_id, timer.key.clone()).await.unwrap();
    assert_eq!(by_key, Some(timer.clone()));
    assert_eq!((timer.state, timer.version, timer.attempt), (State::Scheduled, 1, 1));
    assert_eq!(timer.payload, r#"{"order_id":"A17",  "total_amount":1299}"#);
    let events = bed.events(timer.id).await;
    assert_eq!(kinds(&events), ["registered"]);
    assert_eq!(events[0].event.message_id.as_deref(), Some("m-1"));
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
    assert_eq!(bed.events(first.id).await.len(), 1);
}

pub async fn a_late_duplicate_revives_nothing(bed: Bed) {
    let timer = bed.register("A17", Due::After(secs(60))).await;
    bed.act(&timer, Command::Cancel).await;
    let again = bed.store.insert(bed.new_timer("A17", Due::After(secs(60)))).await.unwrap();
    assert!(matches!(again, Inserted::Same(t) if t.state == State::Cancelled && t.run_at.is_none()));
}

pub async fn a_past_due_time_runs_at_once(bed: Bed) {
    let yesterday = bed.now().saturating_sub(secs(86_400));
    let timer = bed.register("A17", Due::At(yesterday)).await;
    assert_eq!((timer.due_at, timer.run_at), (yesterday, Some(bed.now())));
    assert!(timer.is_expired(bed.now()));
}

/// The edges of 2^31 ms, 2^32 ms, 2038 and ten years: due in its own millisecond, and not in the one before.
pub async fn any_delay_is_due_at_its_own_millisecond(bed: Bed) {
    let edges = [(1 << 31) - 1, 1 << 31, (1 << 31) + 1, (1 << 32) - 1, 1 << 32, (1 << 32) + 1, 315_360_000_000 + 1];
    let mut all: Vec<Due> = edges.into_iter().map(|edge| Due::After(DurationMs::from_millis(edge))).collect();
    all.push(Due::At("2038-01-19T03:14:08Z".parse().unwrap()));
    all.push(Due::At(Timestamp::MAX));
    for (n, due) in all.into_iter().enumerate() {
        let key = format!("edge-{n}");
        let timer = bed.register(&key, due).await;
        let (due_at, after) = (timer.due_at, timer.due_at.saturating_add(ms(1)));
        assert_eq!(due_at, due.resolve(bed.now()).unwrap());
        assert_eq!(timer.run_at, Some(due_at));
        let until = if after == due_at { due_at } else { after };
        if until > due_at {
            assert_eq!(bed.due_keys(&timer, due_at, until).await, [key]);
        }
        assert!(bed.due_keys(&timer, due_at.saturating_sub(ms(1)), due_at).await.is_empty());
    }
}

pub async fn a_sum_beyond_the_last_year_stores_nothing(bed: Bed) {
    let new = bed.new_timer("A17", Due::After(DurationMs::MAX));
    let (id, key) = (new.id, new.key.clone());
    assert!(matches!(bed.store.insert(new).await.unwrap(), Inserted::OutOfRange));
    assert_eq!(bed.store.read().timer(id).await.unwrap(), None);
    assert_eq!(bed.store.read().timer_by_key(bed.type_id, key).await.unwrap(), None);
}

pub async fn the_same_again_is_the_same_timer_to_the_last_day(bed: Bed) {
    let longest = Due::After(Timestamp::MAX.since(bed.now()));
    let timer = bed.register("A17", longest).await;
    assert_eq!(timer.due_at, Timestamp::MAX);
    // Counted from now, it would be due beyond the last year.
    bed.clock.advance(secs(60));
    let again = bed.new_timer("A17", longest);
    assert!(matches!(bed.store.insert(again.clone()).await.unwrap(), Inserted::Same(same) if same == timer));
    let other = NewTimer { fingerprint: [9; 32], id: TimerId::new(), ..again };
    assert!(matches!(bed.store.insert(other).await.unwrap(), Inserted::Conflict(same) if same == timer));
    let free = bed.new_timer("A18", longest);
    assert!(matches!(bed.store.insert(free).await.unwrap(), Inserted::OutOfRange));
}

pub async fn a_delay_counts_from_the_stores_clock(bed: Bed) {
    bed.clock.advance(secs(3600));
    assert_eq!(bed.store.read().now().await.unwrap(), bed.now());
    let timer = bed.register("A17", Due::After(ms(1))).await;
    assert_eq!(timer.due_at, bed.now().saturating_add(ms(1)));
    assert_eq!(timer.created_at, bed.now());
}

pub async fn due_timers_come_in_order_and_in_pages(bed: Bed) {
    // Many of one instant, and some around it, until one shard has enough of them.
    let at = bed.now().saturating_add(secs(10));
    let mut registered = Vec::new();
    for n in 0..200u64 {
        let due_at = at.saturating_add(ms(n % 3));
        registered.push(bed.register(&format!("k{n}"), Due::At(due_at)).await);
    }
    let shard = registered[0].shard();
    let mut expected: Vec<(Timestamp, TimerId)> =
        registered.iter().filter(|t| t.shard() == shard && t.due_at > at).map(|t| (t.due_at, t.id)).collect();
    expected.sort();
    assert!(expected.len() > 3, "the shard has several");

    let mut query =
        DueQuery { shard, from: at.saturating_add(ms(1)), until: at.saturating_add(ms(3)), after: None, limit: 2 };
    let mut found = Vec::new();
    loop {
        let page = bed.store.read().due(query.clone()).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        query.after = Some((last.due_at, last.id));
        found.extend(page.iter().map(|t| (t.due_at, t.id)));
    }
    assert_eq!(found, expected);

    let settled = registered.iter().find(|t| t.id == expected[0].1).unwrap();
    bed.act(settled, Command::Resolve).await;
    query.after = None;
    let page = bed.store.read().due(query).await.unwrap();
    assert_eq!(page[0].id, expected[1].1, "a settled timer is due no more");
}
