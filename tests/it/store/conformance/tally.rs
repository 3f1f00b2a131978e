//! Counts up to a bound, looks ahead, pages in rising order, and pages by the start of a key.

use lapse::{
    domain::{
        decision::FailureClass,
        id::{TimerId, TypeId},
        machine::{Command, Settle},
        timer::{Due, State, Timer},
    },
    store::read::{ForecastQuery, KeyPage, Order, PrefixQuery, Tally, TallyQuery, TimerQuery},
};

use crate::store::bed::{Bed, failure, key, ms, secs};

async fn tally(bed: &Bed, types: &[TypeId], cap: u64) -> Tally {
    let query = TallyQuery { types: types.to_vec(), overdue_before: bed.now().saturating_sub(secs(1)), cap };
    bed.store.read().tally(query).await.unwrap()
}

pub async fn counts_are_by_state_and_stop_at_their_cap(bed: Bed) {
    let other = bed.put_type("other").await;
    let idle = bed.put_type("idle").await;
    assert_eq!(tally(&bed, &[bed.type_id, other], 100).await, Tally::default());
    // Five are overdue, one of them in a node's hand; two are not yet.
    let mut timers = Vec::new();
    for n in 0..9u64 {
        let mut new = bed.new_timer(&format!("k{n}"), Due::After(secs(if n < 7 { 10 } else { 100 })));
        if n % 2 == 1 {
            new.type_id = other;
        }
        let lapse::store::op::Inserted::Created(timer) = bed.store.insert(new).await.unwrap() else { panic!() };
        timers.push(timer);
    }
    bed.clock.set(timers[0].due_at.saturating_add(secs(5)));
    bed.claim(&timers[0], secs(60)).await;
    bed.settle(&timers[1], Settle::Fail { failure: failure(FailureClass::Permanent) }).await;
    let (_, compensations) = bed.close(&timers[2], 3).await;
    let lane = lapse::store::op::ClaimCompensations {
        type_id: bed.type_id,
        kind: crate::store::bed::name("release"),
        limit: 2,
        lease: secs(60),
    };
    let runs = bed.store.claim_compensations(lane).await.unwrap();
    let dead = lapse::domain::compensation::RunResult::Dead { failure: failure(FailureClass::Permanent) };
    bed.store.finish_compensation(crate::store::bed::finish(runs[0].id, runs[0].fence, dead)).await.unwrap();

    let types = [bed.type_id, other, idle];
    let all = tally(&bed, &types, 100).await;
    let made_at = bed.store.read().compensation(compensations[0]).await.unwrap().unwrap().created_at;
    let expected = Tally {
        overdue: 5,
        scheduled: 6,
        failed: 1,
        pending: 2,
        dead: 1,
        dead_by_type: [(bed.type_id, 1)].into(),
        oldest_dead_at: Some(made_at),
    };
    assert_eq!(all, expected);
    let capped = tally(&bed, &types, 2).await;
    assert_eq!((capped.overdue, capped.scheduled, capped.failed, capped.pending), (2, 2, 1, 2));
    let of_other = tally(&bed, &[other], 100).await;
    assert_eq!((of_other.overdue, of_other.scheduled, of_other.failed, of_other.dead), (2, 3, 1, 0));
}

pub async fn a_forecast_counts_what_runs_in_each_step(bed: Bed) {
    let other = bed.put_type("other").await;
    let now = bed.now();
    // At 0, 500, 1000 … 9500 ms from now; every fourth is the other type's.
    for n in 0..20u64 {
        let mut new = bed.new_timer(&format!("k{n:02}"), Due::After(ms(n * 500)));
        if n % 4 == 0 {
            new.type_id = other;
        }
        bed.store.insert(new).await.unwrap();
    }
    // What is settled does not run, whenever it was due.
    let timer = bed.store.read().timer_by_key(bed.type_id, key("k01")).await.unwrap().unwrap();
    bed.act(&timer, Command::Cancel).await;
    let query = |until: u64, rows: usize| ForecastQuery {
        types: vec![other, bed.type_id],
        from: now,
        until: now.saturating_add(ms(until)),
        step: secs(2),
        rows,
    };
    let steps = async |query| {
        let found = bed.store.read().forecast(query).await.unwrap();
        found.iter().map(|u| (u.type_id, u.step, u.count)).collect::<Vec<_>>()
    };
    let mine = bed.type_id;
    let expected = [(mine, 0, 2), (mine, 1, 3), (mine, 2, 3), (other, 0, 1), (other, 1, 1), (other, 2, 1)];
    assert_eq!(steps(query(6_000, 100)).await, expected, "the end is not among it");
    // With a bound, the next ones first; the last that was looked at says how far it went.
    let found = bed.store.read().forecast(query(10_000, 3)).await.unwrap();
    let cut: Vec<_> = found.iter().filter(|u| u.type_id == mine).map(|u| (u.step, u.count)).collect();
    assert_eq!(cut, [(0, 2), (1, 1)]);
    assert_eq!(found.iter().filter(|u| u.type_id == mine).map(|u| u.last).max(), Some(now.saturating_add(ms(2_500))));
}

async fn rising(bed: &Bed, mut query: TimerQuery) -> Vec<Timer> {
    query.order = Order::DueAscending;
    let mut found = Vec::new();
    loop {
        let page = bed.store.read().timers(query.clone()).await.unwrap();
        found.extend(page.items);
        let Some((at, id)) = page.next else { return found };
        let next = Some((at, TimerId(id)));
        assert!(next > query.after, "a page goes on");
        query.after = next;
    }
}

pub async fn rising_pages_are_the_falling_ones_turned_round(bed: Bed) {
    let types = super::lists::fill(&bed).await;
    let query = TimerQuery { types: types.to_vec(), ..TimerQuery::default() };
    let queries = [
        query.clone(),
        TimerQuery { states: vec![State::Scheduled, State::Cancelled], ..query.clone() },
        TimerQuery { due_after: Some(bed.now().saturating_add(secs(12))), ..query.clone() },
        TimerQuery { due_before: Some(bed.now().saturating_add(secs(13))), ..query.clone() },
        TimerQuery { label: Some(("team".into(), "rare".into())), ..query },
    ];
    for query in queries {
        let mut falling = super::lists::all(&bed, TimerQuery { limit: 500, ..query.clone() }).await;
        assert!(!falling.is_empty());
        falling.reverse();
        for limit in [1, 7, 500] {
            assert_eq!(rising(&bed, TimerQuery { limit, ..query.clone() }).await, falling, "{query:?} by {limit}");
        }
    }
    bed.clock.set(bed.now().saturating_add(secs(12)));
    for expired in [true, false] {
        let query = TimerQuery { types: types.to_vec(), expired: Some(expired), limit: 500, ..TimerQuery::default() };
        let mut falling = super::lists::all(&bed, query.clone()).await;
        falling.reverse();
        assert_eq!(rising(&bed, TimerQuery { limit: 7, ..query }).await, falling);
    }
}

async fn by_prefix(bed: &Bed, filter: TimerQuery, prefix: &str) -> Vec<(String, TypeId)> {
    let mut query = PrefixQuery { filter, prefix: prefix.into(), after: None };
    let mut found = Vec::new();
    for _ in 0..1000 {
        let KeyPage { items, next } = bed.store.read().timers_by_prefix(query.clone()).await.unwrap();
        assert!(items.len() <= query.filter.limit);
        found.extend(items.into_iter().map(|t| (t.key.to_string(), t.type_id)));
        let Some(next) = next else { return found };
        assert!(Some(&next) > query.after.as_ref(), "a page goes on");
        query.after = Some(next);
    }
    panic!("the pages do not end")
}

pub async fn keys_are_found_by_how_they_start(bed: Bed) {
    let other = bed.put_type("other").await;
    let words = [
        "A1",
        "A17",
        "A17-b",
        "A170",
        "A18",
        "B",
        "a17",
        "A\u{10ffff}",
        "A\u{10ffff}z",
        "\u{d7ff}x",
        "订单-1",
        "订单-2",
        "订",
    ];
    for word in words {
        for type_id in [bed.type_id, other] {
            let new = lapse::domain::timer::NewTimer { type_id, ..bed.new_timer(word, Due::After(secs(10))) };
            bed.store.insert(new).await.unwrap();
        }
    }
    let types = vec![bed.type_id, other];
    for prefix in ["A", "A1", "A17", "订", "订单-", "\u{d7ff}", "A\u{10ffff}", "z", "A17-b"] {
        let mut expected: Vec<(String, TypeId)> = words
            .iter()
            .filter(|word| word.starts_with(prefix))
            .flat_map(|word| types.iter().map(|t| ((*word).to_owned(), *t)))
            .collect();
        expected.sort();
        for limit in [1, 3, 500] {
            let filter = TimerQuery { types: types.clone(), limit, ..TimerQuery::default() };
            assert_eq!(by_prefix(&bed, filter, prefix).await, expected, "{prefix:?} by {limit}");
        }
    }
    // Filters hold too, and an empty page may go on.
    let timer = bed.store.read().timer_by_key(other, key("A18")).await.unwrap().unwrap();
    bed.act(&timer, Command::Cancel).await;
    let cancelled = TimerQuery { types, states: vec![State::Cancelled], limit: 1, ..TimerQuery::default() };
    assert_eq!(by_prefix(&bed, cancelled.clone(), "A").await, [("A18".to_owned(), other)]);
    assert!(by_prefix(&bed, cancelled, "B").await.is_empty());
}
