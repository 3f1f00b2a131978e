//! Up, down, up again; and what does not fit is refused.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use lapse::{
    clock::ManualClock,
    domain::timer::Due,
    store::{
        Driver as _, Limits, Store,
        migration::MigrationStatus,
        sqlite::{NEWEST, OpenError, Sqlite, SqliteParams, migrate_down, migrate_status, migrate_up},
    },
};
use rusqlite::Connection;

use super::{
    bed::{Bed, chain, noon, secs},
    sqlite,
};

fn schema(path: &Path) -> BTreeMap<String, Option<String>> {
    let conn = Connection::open(path).unwrap();
    let mut all = conn.prepare("SELECT type || ' ' || name, sql FROM sqlite_schema").unwrap();
    let rows = all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn numbers(migrations: &[MigrationStatus]) -> Vec<u32> {
    migrations.iter().map(|m| m.number).collect()
}

fn open(path: &Path, migrate: bool) -> Result<Arc<Sqlite>, OpenError> {
    let params =
        SqliteParams { path: path.into(), readers: 1, clock: ManualClock::new(noon()), chain: chain(), migrate };
    Sqlite::open(params)
}

#[tokio::test]
async fn up_down_and_up_again_with_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lapse.db");
    let every: Vec<u32> = (1..=NEWEST).collect();
    assert!(migrate_status(&path).unwrap().iter().all(|m| m.applied_at.is_none()));
    assert!(!path.exists(), "asking makes nothing");
    assert_eq!(numbers(&migrate_up(&path).unwrap()), every);
    assert!(migrate_status(&path).unwrap().iter().all(|m| m.applied_at.is_some()));
    let first = schema(&path);

    let clock = ManualClock::new(noon());
    let store = Store::new(sqlite::open(folder.path(), Arc::clone(&clock)), Limits::default());
    let bed = Bed::furnish(store, clock, Box::new(())).await;
    let due = bed.due_timer("A17").await;
    bed.close(&due, 2).await;
    let waiting = bed.register("B4", Due::After(secs(60))).await;
    bed.store.close().await;

    assert!(migrate_up(&path).unwrap().is_empty(), "nothing is missing");
    let reopened = open(&path, true).unwrap();
    assert_eq!(reopened.timer(waiting.id).await.unwrap().as_ref(), Some(&waiting), "the data stands");
    reopened.close().await;

    assert_eq!(numbers(&migrate_down(&path, 0).unwrap()), every.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(schema(&path).keys().map(String::as_str).collect::<Vec<_>>(), ["table migrations"]);
    assert!(migrate_down(&path, 0).unwrap().is_empty());
    assert_eq!(numbers(&migrate_up(&path).unwrap()), every);
    assert_eq!(schema(&path), first);
    let reopened = open(&path, true).unwrap();
    assert_eq!(reopened.timer(waiting.id).await.unwrap(), None);
}

#[test]
fn space_can_be_given_back_from_the_first_migration_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lapse.db");
    migrate_up(&path).unwrap();
    let conn = Connection::open(&path).unwrap();
    let pragma =
        |name: &str| conn.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, rusqlite::types::Value>(0));
    assert_eq!(pragma("auto_vacuum").unwrap(), rusqlite::types::Value::Integer(2));
    assert_eq!(pragma("journal_mode").unwrap(), rusqlite::types::Value::Text("wal".into()));
}

#[test]
fn what_does_not_fit_is_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lapse.db");
    let refusal = |migrate| match open(&path, migrate) {
        Ok(_) => panic!("opened"),
        Err(error) => error,
    };
    assert!(matches!(refusal(false), OpenError::Older { found: 0, .. }));
    migrate_up(&path).unwrap();
    let change = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();

    change("INSERT INTO migrations (number, name, applied_at) VALUES (99, 'future', 0)");
    let newer = refusal(true);
    assert!(matches!(newer, OpenError::Newer { found: 99, known: NEWEST, .. }));
    assert!(newer.to_string().contains("newer version"), "{newer}");
    assert!(matches!(migrate_up(&path), Err(OpenError::Newer { .. })));
    assert!(matches!(migrate_down(&path, 0), Err(OpenError::Newer { .. })));
    change("DELETE FROM migrations WHERE number = 99");

    open(&path, false).unwrap();
    change("UPDATE settings SET value = 64 WHERE name = 'shards'");
    let shards = refusal(true);
    assert!(matches!(shards, OpenError::Shards { found: 64, known: 16, .. }));
    change("UPDATE settings SET value = 16 WHERE name = 'shards'");
    open(&path, true).unwrap();

    assert!(matches!(migrate_down(&path, 77), Err(OpenError::NoSuchMigration { wanted: 77, .. })));
}
