//! What somebody who can write to the file, but has not the key, cannot do unseen.

use std::sync::Arc;

use lapse::{
    clock::ManualClock,
    domain::{id::TimerId, machine::Command, timer::Due},
    store::{Limits, Store},
};
use rstest::rstest;

use super::{
    bed::{Bed, noon, secs},
    sqlite,
};

#[rstest]
#[case::an_event_altered("UPDATE events SET body = replace(body, 'paid', 'lost') WHERE seq = 3", 3)]
#[case::an_event_and_its_code_altered(
    "UPDATE events SET body = replace(body, 'key:test', 'key:else'), mac = zeroblob(32) WHERE seq = 2",
    2
)]
#[case::an_event_removed("DELETE FROM events WHERE seq = 2", 2)]
#[case::the_last_event_removed("DELETE FROM events WHERE seq = 3", 3)]
#[case::the_last_event_removed_and_the_version_lowered(
    "DELETE FROM events WHERE seq = 3; UPDATE timers SET version = 2, state = 0",
    3
)]
#[case::all_events_removed("DELETE FROM events; UPDATE timers SET version = 1, state = 0", 2)]
#[case::two_events_exchanged(
    "UPDATE events SET seq = seq + 10; UPDATE events SET seq = CASE seq WHEN 12 THEN 3 ELSE 2 END",
    2
)]
#[case::an_event_of_another_timer(
    "UPDATE events SET body = (SELECT body FROM events AS e WHERE e.timer <> events.timer AND e.seq = 3),
        mac = (SELECT mac FROM events AS e WHERE e.timer <> events.timer AND e.seq = 3) WHERE seq = 3",
    3
)]
#[case::the_state_altered("UPDATE timers SET state = 2", 4)]
#[case::the_payload_altered("UPDATE timers SET payload = '{}'", 2)]
#[case::the_first_due_time_altered("UPDATE timers SET first_due_at = first_due_at + 1", 2)]
#[case::nothing("SELECT 1", 0)]
#[tokio::test]
async fn an_altered_audit_is_detected(#[case] tampering: &str, #[case] first_that_does_not_fit: i64) {
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new(noon());
    let open = || Store::new(sqlite::open(folder.path(), Arc::clone(&clock)), Limits::default());
    let bed = Bed::furnish(open(), Arc::clone(&clock), Box::new(())).await;
    let mut ids: Vec<TimerId> = Vec::new();
    for key in ["A17", "B4"] {
        let timer = bed.register(key, Due::After(secs(60))).await;
        bed.act(&timer, Command::Reschedule(Due::After(secs(90)))).await;
        bed.act(&timer, Command::Resolve).await;
        assert_eq!(bed.verify(timer.id).await, Ok(()));
        ids.push(timer.id);
    }
    bed.store.close().await;
    let conn = rusqlite::Connection::open(folder.path().join("lapse.db")).unwrap();
    conn.execute_batch(tampering).unwrap();
    drop(conn);
    let bed = Bed { store: open(), ..bed };
    let expected = if first_that_does_not_fit == 0 { Ok(()) } else { Err(first_that_does_not_fit) };
    assert_eq!(bed.verify(ids[0]).await, expected);
}
