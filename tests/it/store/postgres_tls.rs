//! TLS to a real PostgreSQL with a certificate of one's own: the certificate is always verified, and so is the name in it.

use crate::support::{authority::Authority, postgres::own_server};
use lapse::store::{
    Driver as _,
    postgres::{Postgres, PostgresParams},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_servers_certificate_and_name_are_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (own, foreign) = (Authority::new(&folder, "own.pem"), Authority::new(&folder, "foreign.pem"));
    let database = own_server().await;
    let open = async |options: &str| {
        Postgres::connect(PostgresParams { url: format!("{}{options}", database.url), ..database.params() }).await
    };
    let refused = async |options: &str| match open(options).await {
        Ok(_) => panic!("connected with {options}"),
        Err(error) => error.to_string(),
    };
    let root = own.pem.display();
    let verified = [
        format!("?sslmode=verify-full&sslrootcert={root}"),
        format!("?sslmode=require&sslrootcert={root}"),
        format!("?sslrootcert={root}"),
    ];
    for options in &verified {
        let said = refused(options).await;
        assert!(said.contains("TLS") || said.contains("tls"), "a server without TLS: {said}");
    }

    let (certificate, key) = own.issue(&["127.0.0.1"]);
    database.server().only_tls(&certificate, &key);
    for options in &verified {
        let node = open(options).await.unwrap_or_else(|error| panic!("{options}: {error}"));
        node.now().await.unwrap();
        node.close().await;
    }
    let plain = refused("?sslmode=disable").await;
    assert!(plain.contains("no encryption"), "{plain}");
    for options in ["?sslmode=verify-full".into(), format!("?sslmode=require&sslrootcert={}", foreign.pem.display())] {
        let said = refused(&options).await;
        assert!(said.contains("certificate"), "{options}: {said}");
    }
    let missing = refused("?sslmode=verify-full&sslrootcert=/nowhere/ca.pem").await;
    assert!(missing.contains("/nowhere/ca.pem"), "{missing}");

    let (certificate, key) = own.issue(&["db.example.net"]);
    database.server().only_tls(&certificate, &key);
    for options in &verified {
        let said = refused(options).await;
        assert!(said.contains("certificate"), "another's name, {options}: {said}");
    }
}
