//! TLS to data sources, with an authority of one's own: the certificate is always verified, and so is the name in it.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use lapse::{
    config::{Config, Sql},
    domain::time::DurationMs,
    sql::{Databases, Error, Mode, Settings, Value},
};

use super::bed::{TIME, say, source};
use crate::support::{authority::Authority, mariadb::MariaDb, postgres::own_server};

fn trusting(ca: &Path) -> Databases {
    let config = Sql { tls_ca: ca.to_owned(), ..Config::default().sql };
    Databases::new(Settings { config, own_folder: "/nowhere".into() })
}

/// Asks over the way that the URL's options say, trusting the authority in the file.
async fn ask(url: &str, options: &str, ca: &Path) -> Result<Vec<Value>, Error> {
    let source = source("default", &format!("{url}{options}"));
    let databases = trusting(ca);
    let mut outcomes = databases.run(&source, vec![say("SELECT 17", Vec::new())], Mode::Write, TIME).await?;
    Ok(outcomes.remove(0).rows.remove(0))
}

async fn refused(url: &str, options: &str, ca: &Path) -> String {
    match ask(url, options, ca).await {
        Err(error @ (Error::Unavailable(_) | Error::Misplaced(_))) => error.to_string(),
        other => panic!("{url}{options}: {other:?}"),
    }
}

/// A server that has a certificate of `own` for its address, and takes no connection without TLS.
async fn verified(url: &str, own: &Authority, foreign: &Authority, (sleep, asleep): (&str, &str)) {
    for options in ["?sslmode=require", "?sslmode=verify-full"] {
        let seventeen = ask(url, options, &own.pem).await;
        assert!(matches!(seventeen.as_deref(), Ok([Value::Integer(17)])), "{url}{options}: {seventeen:?}");
        let said = refused(url, options, &foreign.pem).await;
        assert!(said.contains("certificate"), "another authority, {url}{options}: {said}");
        // The machine knows nothing of it.
        let said = refused(url, options, Path::new("")).await;
        assert!(said.contains("certificate"), "{url}{options}: {said}");
        let said = refused(url, options, Path::new("/nowhere/ca.pem")).await;
        assert!(said.contains("sql.tls_ca, /nowhere/ca.pem"), "{said}");
    }
    refused(url, "?sslmode=disable", &own.pem).await;
    // Its caller goes away: what runs is ended over a connection of its own, which must find its way too.
    let databases = trusting(&own.pem);
    let mut long = source("default", &format!("{url}?sslmode=require"));
    long.definition.statement_timeout = DurationMs::from_secs(60);
    let run = databases.run(&long, vec![say(sleep, Vec::new())], Mode::Write, TIME);
    assert!(tokio::time::timeout(Duration::from_secs(1), run).await.is_err(), "it sleeps");
    let began = Instant::now();
    loop {
        let counted = databases.run(&long, vec![say(asleep, Vec::new())], Mode::Write, TIME).await.unwrap();
        if counted[0].rows[0] == [Value::Integer(0)] {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "it still sleeps: {counted:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const POSTGRES_SLEEPS: (&str, &str) = (
    "SELECT pg_sleep(30)",
    "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'",
);
const MARIADB_SLEEPS: (&str, &str) =
    ("SELECT sleep(30)", "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'SELECT sleep%'");

#[tokio::test(flavor = "multi_thread")]
async fn postgres_is_reached_over_tls_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (Authority::new(&folder, "own.pem"), Authority::new(&folder, "foreign.pem"));
    let database = own_server().await;
    let said = refused(&database.url, "?sslmode=require", &own.pem).await;
    assert!(said.to_lowercase().contains("tls"), "a server without it: {said}");
    let (certificate, key) = own.issue(&["127.0.0.1"]);
    database.server().only_tls(&certificate, &key);
    verified(&database.url, &own, &foreign, POSTGRES_SLEEPS).await;
    let (certificate, key) = own.issue(&["db.example.net"]);
    database.server().only_tls(&certificate, &key);
    let said = refused(&database.url, "?sslmode=require", &own.pem).await;
    assert!(said.contains("certificate"), "another's name: {said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn mariadb_is_reached_over_tls_and_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (Authority::new(&folder, "own.pem"), Authority::new(&folder, "foreign.pem"));
    let (certificate, key) = own.issue(&["127.0.0.1"]);
    let server = MariaDb::start_with_tls(&certificate, &key);
    verified(&server.url(), &own, &foreign, MARIADB_SLEEPS).await;
    drop(server);
    let (certificate, key) = own.issue(&["db.example.net"]);
    let server = MariaDb::start_with_tls(&certificate, &key);
    let said = refused(&server.url(), "?sslmode=require", &own.pem).await;
    assert!(said.contains("certificate"), "another's name: {said}");
    drop(server);
    let plain = MariaDb::start();
    let said = refused(&plain.url(), "?sslmode=require", &own.pem).await;
    assert!(said.to_lowercase().contains("tls") || said.to_lowercase().contains("ssl"), "a server without it: {said}");
}
