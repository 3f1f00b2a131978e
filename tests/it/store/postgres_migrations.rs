//! PostgreSQL's migrations: up, down, up again; by many at once; and what does not fit is refused.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use lapse::{
    domain::timer::Due,
    store::{
        Driver as _,
        postgres::{NEWEST, OpenError, Postgres, PostgresParams, migrate_down, migrate_status, migrate_up},
    },
};

use super::{
    bed::secs,
    postgres::{another, real_bed},
};
use crate::support::postgres::{Database, database};

/// Tables with their columns, indexes with their definitions.
async fn schema(database: &Database) -> BTreeSet<String> {
    let sql = "SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
               FROM information_schema.columns WHERE table_schema = 'public'
               UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'";
    database.client().await.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn up_down_and_up_again_with_data() {
    let database = database().await;
    let every: Vec<u32> = (1..=NEWEST).collect();
    let numbers = |all: Vec<lapse::store::migration::MigrationStatus>| all.iter().map(|m| m.number).collect::<Vec<_>>();
    assert!(migrate_status(&database.params()).await.unwrap().iter().all(|m| m.applied_at.is_none()));
    assert_eq!(numbers(migrate_up(&database.params()).await.unwrap()), every);
    assert!(migrate_up(&database.params()).await.unwrap().is_empty());
    let first = schema(&database).await;
    let (bed, driver) = real_bed(database.params()).await;
    let timer = bed.register("A17", Due::After(secs(60))).await;
    bed.store.close().await;
    assert!(driver.timer(timer.id).await.is_err(), "it is closed");

    let down: Vec<u32> = every.iter().rev().copied().collect();
    assert_eq!(numbers(migrate_down(&database.params(), 0).await.unwrap()), down);
    assert!(schema(&database).await.iter().all(|line| line.contains("migrations")));
    assert_eq!(numbers(migrate_up(&database.params()).await.unwrap()), every);
    assert_eq!(schema(&database).await, first);
    let (bed, _) = real_bed(database.params()).await;
    bed.register("A17", Due::After(secs(60))).await;
    assert!(migrate_status(&database.params()).await.unwrap().iter().all(|m| m.applied_at.is_some()));
}

#[tokio::test]
async fn nodes_that_start_together_migrate_once() {
    let database = database().await;
    let nodes = join_all((0..6).map(|_| Postgres::connect(database.params()))).await;
    for node in nodes {
        node.unwrap().close().await;
    }
    let count: i64 = database.client().await.query_one("SELECT count(*) FROM migrations", &[]).await.unwrap().get(0);
    assert_eq!(count, i64::from(NEWEST));
}

#[tokio::test]
async fn what_does_not_fit_is_refused() {
    let database = database().await;
    let open = |migrate| Postgres::connect(PostgresParams { migrate, ..database.params() });
    assert!(matches!(open(false).await, Err(OpenError::Older { found: 0, .. })));
    assert!(matches!(migrate_down(&database.params(), NEWEST + 1).await, Err(OpenError::NoSuchMigration { .. })));
    open(true).await.unwrap().close().await;
    another(&database).await.close().await;

    database.execute("UPDATE settings SET value = 64 WHERE name = 'shards'").await;
    assert!(matches!(open(true).await, Err(OpenError::Shards { found: 64, .. })));
    database.execute("INSERT INTO migrations VALUES (999, 'of_the_future', 0)").await;
    assert!(matches!(open(true).await, Err(OpenError::Newer { found: 999, .. })));
    assert!(matches!(migrate_up(&database.params()).await, Err(OpenError::Newer { .. })));
    assert!(matches!(migrate_down(&database.params(), 0).await, Err(OpenError::Newer { .. })));
    database.execute("DELETE FROM migrations WHERE number = 999").await;

    let nowhere = PostgresParams { url: "postgres://postgres@127.0.0.1:1/x".into(), ..database.params() };
    let Err(refused) = Postgres::connect(nowhere).await else { panic!("connected to nothing") };
    assert!(refused.to_string().contains("127.0.0.1"), "{refused}");
    let secret = PostgresParams { url: "postgres://u:hunter2@127.0.0.1:1/x".into(), ..database.params() };
    let Err(refused) = Postgres::connect(secret).await else { panic!("connected to nothing") };
    assert!(!refused.to_string().contains("hunter2"), "{refused}");

    let latin = format!("{}_latin", database.name);
    database.execute(&format!("CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")).await;
    let params = PostgresParams { url: database.url.replace(&database.name, &latin), ..database.params() };
    assert!(matches!(Postgres::connect(params).await, Err(OpenError::Encoding(_))));
    database.execute(&format!("DROP DATABASE {latin} WITH (FORCE)")).await;
}
