//! Secrets in a plugin's calls: put in by the host where they are granted, gone at once when they are deleted.

use std::sync::Arc;

use axum::{
    http::{StatusCode, header},
    response::IntoResponse,
};
use lapse::{
    config::{Config, Secret},
    domain::audit::Chain,
    plugin::{Keeper, Plugin, Run},
    sql::{Databases, Settings},
    store::{
        Limits, Store,
        admin::{AdminAnswer, AdminOp, SealedKind},
        postgres::{Postgres, PostgresParams},
    },
    vault::{Keep, Vault},
};
use serde_json::{Value, json};

use super::bed::{Bed, Guest, Shelf, host, name};
use crate::{
    plugins::{
        host::{load, rights, task},
        server::Server,
    },
    support::{guest::component, postgres::database},
};

const SECRET: &str = "tr0ub4dor-and-3";

fn databases() -> Databases {
    Databases::new(Settings { config: Config::default().sql, own_folder: "/".into() })
}

async fn shelved(value: &str) -> (Arc<Shelf>, Arc<dyn Plugin>) {
    let shelf = Arc::<Shelf>::default();
    shelf.secrets.lock().insert(("default".into(), name("token")), value.into());
    let keeper = Arc::clone(&shelf) as Arc<dyn Keeper>;
    (shelf, load(&host(keeper, databases()), component("hostile")).await)
}

async fn send(plugin: &Arc<dyn Plugin>, url: &str, secrets: Value, grants: &[&str]) -> Run<Option<String>> {
    let payload = json!({"do": "http", "url": url, "secrets": secrets});
    plugin.compensate(&task("undo", &payload, &json!({})), &rights(grants)).await
}

fn said(run: &Run<Option<String>>) -> &str {
    run.result.as_ref().unwrap().as_deref().unwrap()
}

#[tokio::test]
async fn a_granted_secret_reaches_the_granted_host_alone() {
    let other = Server::start(|_| "there").await;
    let to = other.url("/there");
    let server = Server::start(move |asked| match asked.path.as_str() {
        "/away" => (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, to.clone())]).into_response(),
        _ => "here".into_response(),
    })
    .await;
    let (_, plugin) = shelved(SECRET).await;
    let grants = [server.grant(), other.grant(), "secret:token".into()];
    let grants: Vec<&str> = grants.iter().map(String::as_str).collect();
    let secrets = json!([["authorization", "Bearer ", "token"], ["x-api-key", "", "token"]]);
    for path in ["/", "/away"] {
        let run = send(&plugin, &server.url(path), secrets.clone(), &grants).await;
        assert!(said(&run).starts_with("\"200"), "{run:?}");
        assert!(!format!("{run:?}").contains(SECRET));
    }
    for asked in server.asked() {
        assert_eq!(asked.header("authorization").unwrap(), format!("Bearer {SECRET}"));
        assert_eq!(asked.header("x-api-key"), Some(SECRET));
    }
    // Not even to another host that is granted too: the request did not name it.
    let [asked] = &other.asked()[..] else { panic!("one request") };
    assert!(!format!("{asked:?}").contains(SECRET), "{asked:?}");
}

#[tokio::test]
async fn a_secret_without_its_grant_or_for_another_host_is_denied() {
    let server = Server::start(|_| "here").await;
    let (shelf, plugin) = shelved(SECRET).await;
    let secrets = json!([["authorization", "Bearer ", "token"]]);
    let (url, grant) = (server.url("/"), server.grant());
    let cases: [(&[&str], &str); 4] = [
        (&[&grant], "secret \"token\" is not granted to compensate"),
        (&[&grant, "on-expire:secret:token"], "secret \"token\" is not granted to compensate"),
        (&[&grant, "secret:other"], "secret \"token\" is not granted to compensate"),
        (&["http:127.0.0.1:1", "secret:token"], "is not granted to compensate"),
    ];
    for (grants, why) in cases {
        let run = send(&plugin, &url, secrets.clone(), grants).await;
        assert_eq!(said(&run), "\"denied\"", "{grants:?}");
        assert!(run.denied[0].ends_with(why) && !format!("{run:?}").contains(SECRET), "{run:?}");
    }
    // In a pure decision none is put in.
    let payload = json!({"do": "http", "url": url, "secrets": secrets});
    let pure = plugin.decide(&crate::plugins::host::expiry(&payload, &json!({})));
    assert_eq!(pure.denied.len(), 1);
    // What can stand in no header is not sent, and not said.
    shelf.secrets.lock().insert(("default".into(), name("token")), "two\nlines".into());
    let run = send(&plugin, &url, secrets, &[&grant, "secret:token"]).await;
    assert_eq!(said(&run), "\"invalid\"");
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn a_revoked_secret_or_data_source_is_denied_though_it_is_granted() {
    let server = Server::start(|_| "here").await;
    let (_, plugin) = shelved(SECRET).await;
    let held = rights(&[&server.grant(), "secret:token", "sql:shop"]);
    let run = async |revoked: &str, payload: Value| {
        held.revoked.set([revoked.parse().unwrap()].into());
        plugin.compensate(&task("undo", &payload, &json!({})), &held).await
    };
    let secrets = json!([["authorization", "Bearer ", "token"]]);
    let ran = run("secret:token", json!({"do": "http", "url": server.url("/"), "secrets": secrets})).await;
    assert_eq!(
        (said(&ran), &*ran.denied),
        ("\"denied\"", &["secret \"token\" was revoked for compensate".to_owned()][..])
    );
    assert!(server.asked().is_empty());
    let ran = run("sql:shop", json!({"do": "sql", "source": "shop", "statements": [{"text": "SELECT 1"}]})).await;
    assert_eq!(ran.denied, ["sql on \"shop\" was revoked for compensate"], "{ran:?}");
}

#[tokio::test]
async fn a_database_does_not_tell_a_secret_on() {
    for bed in [Bed::postgres().await, Bed::mariadb()] {
        bed.execute("CREATE TABLE keys_of (k varchar(64) PRIMARY KEY, n bigint)").await;
        let guest = Guest::on(&bed).await;
        guest.shelf.secrets.lock().insert(("default".into(), name("token")), SECRET.into());
        let insert = json!({"statements": [
            {"text": "INSERT INTO keys_of (n, k) VALUES ($1, $2)", "parameters": [1], "secret": "token"},
        ]});
        assert!(guest.says(insert.clone()).await.starts_with("done"));
        assert_eq!(bed.row("SELECT k FROM keys_of").await, SECRET);
        // MariaDB repeats the value.
        let said = guest.says(insert).await;
        assert!(said.starts_with("unique 0: ") && !said.contains(SECRET), "{said}");
    }
}

/// Two nodes of a cluster: what is taken away on one is gone on the other at its next call.
#[tokio::test]
async fn what_is_deleted_is_gone_on_every_node_at_once() {
    let database = database().await;
    let node = || async {
        let params = PostgresParams::new(&database.url, Chain::new([7; 32]));
        let store = Store::new(Postgres::connect(params).await.unwrap(), Limits::default());
        let vault = Vault::new(store.clone(), [9; 32]);
        let plugin = load(&host(Arc::new(vault.clone()), databases()), component("hostile")).await;
        (store, vault, plugin)
    };
    let ((store, here, _), (far, _, there)) = (node().await, node().await);
    let AdminAnswer::Namespace { row, .. } =
        store.admin(AdminOp::CreateNamespace { name: name("default") }).await.unwrap()
    else {
        panic!()
    };
    let keep = |what: &str| Keep { namespace_id: row.id, name: name(what), by: "test".into() };
    let server = Server::start(|_| "here").await;
    let grants = [server.grant(), "secret:token".into()];
    let grants: Vec<&str> = grants.iter().map(String::as_str).collect();
    let secrets = json!([["x-api-key", "", "token"]]);

    for value in ["first", "second"] {
        here.put_secret(keep("token"), &Secret::new(value)).await.unwrap();
        let run = send(&there, &server.url("/"), secrets.clone(), &grants).await;
        assert_eq!(said(&run), "\"200 here\"");
        assert_eq!(server.asked().last().unwrap().header("x-api-key"), Some(value));
    }
    here.delete(row.id, SealedKind::Secret, name("token")).await.unwrap().unwrap();
    let run = send(&there, &server.url("/"), secrets, &grants).await;
    assert_eq!(run.denied, ["there is no secret token"]);

    // The same of a data source, also of one whose connections are open.
    let bed = Bed::postgres().await;
    here.put_source(keep("shop"), &bed.source.definition, &bed.source.password).await.unwrap();
    let payload = json!({"do": "sql", "source": "shop", "statements": [{"text": "SELECT 1"}]});
    let (far_rights, far_task) = (rights(&["sql:shop"]), task("undo", &payload, &json!({})));
    let run = there.compensate(&far_task, &far_rights).await;
    assert!(said(&run).contains("done 1"), "{run:?}");
    here.delete(row.id, SealedKind::DataSource, name("shop")).await.unwrap().unwrap();
    let run = there.compensate(&far_task, &far_rights).await;
    assert!(said(&run).contains("there is no data source shop"), "{run:?}");
    store.close().await;
    far.close().await;
}
