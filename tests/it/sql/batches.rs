//! What a batch promises, on each database.

use std::{sync::Arc, time::Duration};

use lapse::sql::{Error, Value};

use super::bed::{Bed, name, say, sure};

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

async fn stock(bed: &Bed) {
    bed.execute("CREATE TABLE stock (sku varchar(64) PRIMARY KEY, held bigint NOT NULL CHECK (held >= 0))").await;
    bed.execute("INSERT INTO stock VALUES ('a', 5), ('b', 5)").await;
}

#[tokio::test]
async fn values_come_back_as_they_went() {
    for bed in Bed::all().await {
        let (decimal, bytes, at, json, real) = match bed.name() {
            "PostgreSQL" => ("numeric", "bytea", "timestamptz", "jsonb", "double precision"),
            "MariaDB" => ("decimal(30,8)", "blob", "datetime(6)", "json", "double"),
            _ => ("text", "blob", "text", "text", "real"),
        };
        bed.execute(&format!(
            "CREATE TABLE things (n bigint, d {decimal}, s text, b {bytes}, at {at}, j {json}, yes boolean, r {real}, none text)"
        ))
        .await;
        let given = vec![
            Value::Integer(i64::MIN),
            Value::Decimal("-1234567890123456.00000789".into()),
            text("żółć '; DROP TABLE things; -- \u{1F600}"),
            Value::Bytes(vec![0, 1, 0xff]),
            Value::Timestamp(1_772_368_200_123_456),
            Value::Json(r#"{"a": [1, null]}"#.into()),
            Value::Boolean(true),
            Value::Real(0.1),
            Value::Null,
        ];
        let columns = "n, d, s, b, at, j, yes, r, none";
        let insert = format!("INSERT INTO things ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)");
        bed.run(vec![sure(&insert, given.clone(), 1)]).await.unwrap();
        let found = bed.read(say(&format!("SELECT {columns} FROM things"), vec![])).await.unwrap();
        assert_eq!(found.columns, columns.split(", ").collect::<Vec<_>>(), "{}", bed.name());
        let mut expected = given;
        // What has no type of its own comes as what it is kept as.
        match bed.name() {
            "MariaDB" => {
                expected[5] = text(r#"{"a": [1, null]}"#);
                expected[6] = Value::Integer(1);
            }
            "SQLite" => {
                expected[1] = text("-1234567890123456.00000789");
                expected[4] = text("2026-03-01T12:30:00.123456Z");
                expected[5] = text(r#"{"a": [1, null]}"#);
                expected[6] = Value::Integer(1);
            }
            _ => {}
        }
        assert_eq!(found.rows, [expected], "{}", bed.name());
        // The same parameter twice, in another order.
        let twice =
            say("SELECT s FROM things WHERE n < $2 AND n <= $2 AND s <> $1", vec![text("x"), Value::Integer(0)]);
        assert_eq!(bed.read(twice).await.unwrap().rows.len(), 1, "{}", bed.name());
    }
}

#[tokio::test]
async fn a_guard_that_does_not_hold_rolls_all_back_and_names_its_statement() {
    for bed in Bed::all().await {
        stock(&bed).await;
        let take = |n: i64, sku: &str, rows| {
            sure("UPDATE stock SET held = held - $1 WHERE sku = $2", vec![Value::Integer(n), text(sku)], rows)
        };
        let error = bed.run(vec![take(1, "a", 1), take(1, "none", 1), take(1, "b", 1)]).await.unwrap_err();
        assert_eq!(error, Error::Guard { statement: 1, expected: 1, actual: 0 }, "{}", bed.name());
        let error = bed.run(vec![take(1, "a", 1), sure("SELECT sku FROM stock", vec![], 1)]).await.unwrap_err();
        assert_eq!(error, Error::Guard { statement: 1, expected: 1, actual: 2 }, "{}", bed.name());
        // A row that is as it should be counts as changed, whatever the database.
        bed.run(vec![take(0, "a", 1)]).await.unwrap();
        let again = say("INSERT INTO stock VALUES ($1, $2)", vec![text("a"), Value::Integer(1)]);
        let error = bed.run(vec![take(1, "b", 1), again]).await.unwrap_err();
        assert!(matches!(&error, Error::Unique(fault) if fault.statement == 1), "{}: {error:?}", bed.name());
        let error = bed.run(vec![take(1, "b", 1), take(9, "a", 1)]).await.unwrap_err();
        assert!(matches!(&error, Error::Constraint(fault) if fault.statement == 1), "{}: {error:?}", bed.name());
        assert_eq!(bed.row("SELECT sum(held), count(*) FROM stock").await, "10,2", "{}", bed.name());
        let done = bed.run(vec![take(1, "a", 1), take(2, "b", 1)]).await.unwrap();
        assert_eq!(done.iter().map(|o| o.rows_affected).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(bed.row("SELECT sum(held) FROM stock").await, "7", "{}", bed.name());
    }
}

#[tokio::test]
async fn a_read_changes_nothing() {
    for bed in Bed::all().await {
        stock(&bed).await;
        let error = bed.read(say("DELETE FROM stock", vec![])).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{}: {error:?}", bed.name());
        assert_eq!(bed.row("SELECT count(*) FROM stock").await, "2", "{}", bed.name());
    }
}

#[tokio::test]
async fn batches_in_each_other_s_way_are_repeated() {
    for bed in [Bed::postgres().await, Bed::mariadb()] {
        stock(&bed).await;
        bed.execute("UPDATE stock SET held = 1000").await;
        let bed = Arc::new(bed);
        let pass = |first: &'static str, second: &'static str| {
            let bed = Arc::clone(&bed);
            async move {
                for _ in 0..40 {
                    let take = |sku| sure("UPDATE stock SET held = held - 1 WHERE sku = $1", vec![text(sku)], 1);
                    bed.run(vec![take(first), take(second)]).await.unwrap();
                }
            }
        };
        // In opposite orders: a deadlock now and then.
        tokio::join!(pass("a", "b"), pass("b", "a"));
        assert_eq!(bed.row("SELECT min(held), max(held) FROM stock").await, "920,920", "{}", bed.name());
    }
}

#[tokio::test]
async fn what_is_set_anew_or_deleted_is_closed() {
    for mut bed in [Bed::postgres().await, Bed::mariadb()] {
        let one = || say("SELECT 1", vec![]);
        bed.read(one()).await.unwrap();
        assert_eq!(bed.settles_with_connections().await, 1, "{}", bed.name());
        bed.source.stamp = vec![2];
        bed.read(one()).await.unwrap();
        gone_down_to(&bed, 1).await;
        bed.databases.forget("default", &name("shop"));
        gone_down_to(&bed, 0).await;
    }
}

async fn gone_down_to(bed: &Bed, connections: u32) {
    for _ in 0..100 {
        if bed.settles_with_connections().await == connections {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{}: {} connections", bed.name(), bed.settles_with_connections().await);
}
