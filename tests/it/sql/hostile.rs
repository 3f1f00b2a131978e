//! Guests that mean no good to a database: a typed error each time, and the pool is well afterwards.

use std::time::Instant;

use serde_json::json;

use super::bed::{Bed, Guest, TIME, name, source};

/// What is said, and how the answer begins.
type Case = (&'static str, &'static str);

/// What no database takes.
const EVERYWHERE: &[Case] = &[
    ("COMMIT", "invalid 0: commit is not for a statement to say"),
    ("  -- a comment\n /* and another */ rollback", "invalid 0: rollback is not for a statement to say"),
    ("BEGIN", "invalid 0"),
    ("SAVEPOINT mine", "invalid 0"),
    ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "invalid 0"),
    ("DROP TABLE stock", "invalid 0: a statement begins with one of"),
    ("DELETE FROM stock; COMMIT", "invalid 0"),
    ("SELECT 1; SELECT 2", "invalid 0"),
    ("SELECT $1", "invalid 0"),
    ("SELEC 1", "invalid 0"),
    ("", "invalid 0"),
    ("/* without an end", "invalid 0"),
];

/// MariaDB ends a recursion by itself.
const RECURSIONS: &[Case] = &[
    ("WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM f) SELECT count(*) FROM f", "timeout"),
    (
        "WITH RECURSIVE f(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM f WHERE n < 1000000) SELECT n FROM f",
        "too-large: the batch returns more than 1000 rows",
    ),
];

const POSTGRES: &[Case] = &[
    ("SELECT pg_sleep(60)", "timeout"),
    ("SELECT set_config('statement_timeout', '0', false), pg_sleep(60)", "timeout"),
    ("SELECT generate_series(1, 1000000)", "too-large"),
    ("SELECT repeat('x', 20000000)", "too-large"),
    ("SELECT repeat('x', 300000)", "too-large"),
    ("COPY stock TO STDOUT", "invalid 0"),
    ("COPY stock FROM STDIN", "invalid 0"),
    ("LISTEN x", "invalid 0"),
    ("DO $$ BEGIN COMMIT; END $$", "invalid 0"),
    ("CALL ends_it()", "invalid 0: invalid transaction termination"),
    ("PREPARE TRANSACTION 'x'", "invalid 0"),
    ("SELECT pg_terminate_backend(pg_backend_pid())", "unavailable"),
    ("SELECT ARRAY[1, 2]", "invalid 0: column \"array\" is of the type"),
    ("SELECT 'infinity'::timestamptz", "invalid 0"),
];

const MARIADB: &[Case] = &[
    ("SELECT sleep(60)", "timeout"),
    ("SELECT count(*) FROM seq_1_to_1000000 AS a, seq_1_to_1000000 AS b", "timeout"),
    ("SELECT seq FROM seq_1_to_1000000", "too-large"),
    ("SELECT repeat('x', 10000000)", "too-large"),
    ("/*! COMMIT */", "invalid 0: a comment that is carried out is not taken"),
    ("/*M! COMMIT */", "invalid 0: a comment that is carried out is not taken"),
    ("CREATE TABLE mine (a int)", "invalid 0"),
    ("CALL ends_it()", "invalid 0"),
    ("LOAD DATA LOCAL INFILE '/etc/passwd' INTO TABLE stock", "invalid 0"),
    ("LOCK TABLES stock WRITE", "invalid 0"),
    ("SELECT ?", "invalid 0: write parameters as $1"),
    ("KILL 1", "invalid 0"),
];

const SQLITE: &[Case] = &[
    ("ATTACH DATABASE '/tmp/mine.db' AS mine", "invalid 0"),
    ("PRAGMA journal_mode = DELETE", "invalid 0"),
    ("SELECT load_extension('x')", "invalid 0"),
    ("SELECT randomblob(100000000)", "too-large"),
    ("SELECT ?1", "invalid 0"),
];

#[tokio::test]
async fn each_is_refused_and_the_pool_is_well() {
    for bed in Bed::all().await {
        bed.execute("CREATE TABLE stock (sku varchar(64) PRIMARY KEY, held bigint NOT NULL)").await;
        bed.execute("INSERT INTO stock VALUES ('a', 5)").await;
        let mut cases = EVERYWHERE.to_vec();
        if bed.is_postgres() {
            bed.execute("CREATE PROCEDURE ends_it() LANGUAGE plpgsql AS $$ BEGIN COMMIT; END $$").await;
            cases.extend(RECURSIONS);
            cases.extend(POSTGRES);
        } else if bed.is_mariadb() {
            bed.execute("CREATE PROCEDURE ends_it() COMMIT").await;
            cases.extend(MARIADB);
        } else {
            cases.extend(RECURSIONS);
            cases.extend(SQLITE);
        }
        let guest = Guest::on(&bed).await;
        for (text, says) in cases {
            // Behind a statement that changes something: nothing of it may stay.
            let batch = json!({"statements": [{"text": text}, {"text": "UPDATE stock SET held = 0"}]});
            let before = json!({"statements": [{"text": "UPDATE stock SET held = 0"}, {"text": text}]});
            let began = Instant::now();
            let said = guest.says(batch).await;
            assert!(said.starts_with(says), "{}: {text:?} came to {said:?}", bed.name());
            let said = guest.says(before).await;
            let expected = says.replacen(" 0", " 1", 1);
            assert!(said.starts_with(&expected), "{}: {text:?} second came to {said:?}", bed.name());
            assert!(began.elapsed() < TIME, "{}: {text:?} took too long", bed.name());
            let well = guest.says_of("SELECT held FROM stock").await;
            assert!(well.contains("Integer(5)"), "{}: after {text:?}: {well}", bed.name());
        }
        assert!(bed.settles_with_connections().await <= 2, "{}", bed.name());
    }
}

#[tokio::test]
async fn a_batch_has_its_bounds() {
    let bed = Bed::postgres().await;
    let guest = Guest::on(&bed).await;
    let many: Vec<_> = (0..65).map(|_| json!({"text": "SELECT 1"})).collect();
    assert!(guest.says(json!({"statements": many})).await.starts_with("too-large: a batch has at most 64 statements"));
    assert!(guest.says(json!({"statements": []})).await.starts_with("invalid 0: the batch has no statements"));
    let long = format!("SELECT '{}'", "x".repeat(70_000));
    assert!(guest.says_of(&long).await.starts_with("too-large: a statement has at most"));
    let huge = json!({"statements": [{"text": "SELECT length($1)", "huge": 300_000}]});
    assert!(guest.says(huge).await.starts_with("too-large: a batch's parameters have at most"));
    // More than may cross at all ends the call.
    let run = guest.run(json!({"statements": [{"text": "SELECT length($1)", "huge": 20_000_000}]})).await;
    assert_eq!(run.result.unwrap_err().code, "output_too_large");
    let parameters: Vec<_> = (0..1_001).collect();
    let said = guest.says(json!({"statements": [{"text": "SELECT 1", "parameters": parameters}]})).await;
    assert!(said.starts_with("too-large: a statement has at most 1000 parameters"), "{said}");
    assert_eq!(guest.says_of("SELECT 1").await, "done 1 [[Value::Integer(1)]]");
}

#[tokio::test]
async fn what_a_batch_sets_does_not_outlive_it() {
    let bed = Bed::postgres().await;
    let guest = Guest::on(&bed).await;
    let set = "SELECT set_config('search_path', 'pg_catalog', false), pg_advisory_lock(7)::text";
    assert!(guest.says_of(set).await.starts_with("done"));
    bed.settles_with_connections().await;
    for _ in 0..4 {
        let said = guest
            .says_of(
                "SELECT current_setting('search_path'), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')",
            )
            .await;
        assert!(said.contains("public") && said.contains("Integer(0)"), "{said}");
        bed.settles_with_connections().await;
    }
}

#[tokio::test]
async fn what_is_not_granted_or_another_s_is_not_there() {
    let bed = Bed::postgres().await;
    let guest = Guest::on(&bed).await;
    let of = |source: &str| json!({"source": source, "statements": [{"text": "SELECT 1"}]});
    for source in ["other", "Shop", "", "shop/../shop"] {
        let run = guest.run(of(source)).await;
        assert_eq!(run.result.unwrap().unwrap(), r#""denied""#, "{source}");
        assert_eq!(run.denied, [format!("sql on {source:?} is not granted to compensate")]);
    }
    // Granted by name, and only another namespace has it.
    let theirs = guest.shelf.sources.lock().remove(&("default".into(), name("shop"))).unwrap();
    guest.shelf.sources.lock().insert(("other".into(), name("shop")), theirs.clone());
    assert_eq!(guest.says(of("shop")).await, "no-source: there is no data source shop");
    // A server that is not there.
    let mut away = source("default", "postgres://u:hush@127.0.0.1:1/d");
    away.stamp = vec![9];
    guest.shelf.sources.lock().insert(("default".into(), name("shop")), away);
    let said = guest.says(of("shop")).await;
    assert!(said.starts_with("unavailable: ") && !said.contains("hush"), "{said}");
    guest.shelf.sources.lock().insert(("default".into(), name("shop")), theirs);
    assert!(
        guest.says(of("shop")).await.starts_with("unavailable") || guest.says(of("shop")).await.starts_with("done")
    );
}

#[tokio::test]
async fn a_caller_that_goes_away_leaves_nothing_running() {
    for bed in [Bed::postgres().await, Bed::mariadb()] {
        let sleep = if bed.is_postgres() { "SELECT pg_sleep(1)" } else { "SELECT sleep(1)" };
        let statement = super::bed::say(sleep, vec![]);
        let gone = tokio::time::timeout(std::time::Duration::from_millis(300), bed.read(statement)).await;
        assert!(gone.is_err());
        bed.settles_with_connections().await;
        bed.read(super::bed::say("SELECT 1", vec![])).await.unwrap();
    }
}
