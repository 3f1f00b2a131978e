//! Pages of timers.

use lapse::{
    domain::{
        id::TypeId,
        machine::Command,
        timer::{Due, State, Timer},
    },
    store::read::TimerQuery,
};

use crate::store::bed::{Bed, ms, secs};

/// All pages of a query.
pub async fn all(bed: &Bed, mut query: TimerQuery) -> Vec<Timer> {
    let mut found = Vec::new();
    loop {
        let page = bed.store.read().timers(query.clone()).await.unwrap();
        assert!(page.items.len() <= query.limit);
        found.extend(page.items);
        let Some((at, id)) = page.next else { return found };
        let next = Some((at, lapse::domain::id::TimerId(id)));
        assert!(query.before.is_none() || next < query.before, "a page goes on");
        query.before = next;
    }
}

fn query(types: &[TypeId], limit: usize) -> TimerQuery {
    TimerQuery { types: types.to_vec(), limit, ..TimerQuery::default() }
}

fn keys(timers: &[Timer]) -> Vec<&str> {
    let mut keys: Vec<_> = timers.iter().map(|t| t.key.as_str()).collect();
    keys.sort_unstable();
    keys
}

/// Two types, several states, and due times that many share.
pub async fn fill(bed: &Bed) -> [TypeId; 2] {
    let other = bed.put_type("other").await;
    for n in 0..60u64 {
        let mut new = bed.new_timer(&format!("k{n:02}"), Due::After(secs(10 + n / 10)));
        if n % 3 == 0 {
            new.type_id = other;
        }
        if n % 20 == 0 {
            new.labels.insert("team".into(), "rare".into());
        }
        let lapse::store::op::Inserted::Created(timer) = bed.store.insert(new).await.unwrap() else { panic!() };
        match n % 4 {
            0 => drop(bed.act(&timer, Command::Cancel).await),
            1 => drop(bed.act(&timer, Command::Resolve).await),
            _ => {}
        }
    }
    [bed.type_id, other]
}

pub async fn pages_meet_without_a_gap_or_a_repeat(bed: Bed) {
    let types = fill(&bed).await;
    for limit in [1, 7, 59, 60, 500] {
        let found = all(&bed, query(&types, limit)).await;
        assert_eq!(found.len(), 60);
        assert!(found.windows(2).all(|w| (w[0].due_at, w[0].id) > (w[1].due_at, w[1].id)), "newest due first");
    }
    assert!(all(&bed, query(&[], 10)).await.is_empty());
}

pub async fn filters_are_exact(bed: Bed) {
    let types = fill(&bed).await;
    let cancelled = all(&bed, TimerQuery { states: vec![State::Cancelled], ..query(&types, 7) }).await;
    assert_eq!(cancelled.len(), 15);
    assert!(cancelled.iter().all(|t| t.state == State::Cancelled));
    let one_type = all(&bed, query(&types[1..], 7)).await;
    assert_eq!(one_type.len(), 20);
    let by_key = all(&bed, TimerQuery { key: Some("k07".into()), ..query(&types, 7) }).await;
    assert_eq!(keys(&by_key), ["k07"]);
    let other_state = TimerQuery { key: Some("k07".into()), states: vec![State::Closed], ..query(&types, 7) };
    assert!(all(&bed, other_state).await.is_empty());
    let (from, until) = (bed.now().saturating_add(secs(11)), bed.now().saturating_add(secs(13)));
    let between = TimerQuery { due_after: Some(from), due_before: Some(until), ..query(&types, 7) };
    let between = all(&bed, between).await;
    assert_eq!(between.len(), 20);
    assert!(between.iter().all(|t| t.due_at >= from && t.due_at < until));
}

/// From the due time alone: a settled timer is not expired, a failed or waiting one is, from its millisecond on.
pub async fn expired_is_computed(bed: Bed) {
    let types = fill(&bed).await;
    bed.clock.advance(secs(12));
    let expired = |expired| all(&bed, TimerQuery { expired: Some(expired), ..query(&types, 7) });
    let (yes, no) = (expired(true).await, expired(false).await);
    let now = bed.now();
    assert!(yes.iter().all(|t| t.is_expired(now)) && no.iter().all(|t| !t.is_expired(now)));
    assert_eq!((yes.len(), no.len()), (14, 46));
    bed.clock.set(now.saturating_sub(ms(1)));
    assert_eq!(expired(true).await.len(), 10);
}

pub async fn a_rare_label_is_found_page_by_page(bed: Bed) {
    let types = fill(&bed).await;
    let label = |value: &str| Some(("team".to_owned(), value.to_owned()));
    let rare = all(&bed, TimerQuery { label: label("rare"), ..query(&types, 2) }).await;
    assert_eq!(keys(&rare), ["k00", "k20", "k40"]);
    assert!(all(&bed, TimerQuery { label: label("none"), ..query(&types, 2) }).await.is_empty());
}
