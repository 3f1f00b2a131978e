//! Namespaces, keys, plugins, types.

use lapse::{
    domain::{
        id::{ApiKeyId, Digest, Name, NamespaceId},
        pause::{Pause, Scope},
        plugin::Grant,
    },
    store::admin::{AdminAnswer, AdminOp, PutPause, PutSealed, Revoke, Role, SealedKind},
};

use crate::store::bed::{Bed, manifest, name, put_type, secs};

async fn version(bed: &Bed) -> i64 {
    bed.store.read().catalogue_version().await.unwrap()
}

async fn put(bed: &Bed, put: lapse::store::admin::PutType) -> AdminAnswer {
    bed.store.admin(AdminOp::PutType(put)).await.unwrap()
}

pub async fn the_catalogue_rises_with_each_change(bed: Bed) {
    let before = version(&bed).await;
    let create = || AdminOp::CreateNamespace { name: name("tenant") };
    let AdminAnswer::Namespace { row, created: true } = bed.store.admin(create()).await.unwrap() else { panic!() };
    assert_eq!(version(&bed).await, before + 1);
    let again = bed.store.admin(create()).await.unwrap();
    assert!(matches!(again, AdminAnswer::Namespace { row: r, created: false } if r == row));
    assert!(matches!(bed.put_plugin(row.id, b"another").await, AdminAnswer::Plugin { created: true, .. }));
    assert!(matches!(bed.put_plugin(row.id, b"another").await, AdminAnswer::Plugin { created: false, .. }));
    assert_eq!(version(&bed).await, before + 2, "what changes nothing raises nothing");
    let catalogue = bed.store.read().catalogue().await.unwrap();
    assert_eq!(catalogue.version, before + 2);
    assert_eq!(catalogue.namespace("tenant"), Some(row.id));
    let plugin = catalogue.plugins.iter().find(|p| p.namespace_id == row.id).unwrap();
    assert_eq!((plugin.size, &plugin.manifest, plugin.digest), (7, &manifest(), Digest::of(b"another")));
    let bytes = |namespace| bed.store.read().plugin_bytes(namespace, Digest::of(b"another"));
    assert_eq!(bytes(row.id).await.unwrap().as_deref(), Some(&b"another"[..]));
    assert_eq!(bytes(bed.namespace).await.unwrap(), None);
}

pub async fn the_same_definition_makes_no_new_revision(bed: Bed) {
    let same = put(&bed, put_type(bed.namespace, "order-timeout")).await;
    assert!(matches!(same, AdminAnswer::Type { revision, created: false, .. } if revision.number == 1));
    let mut changed = put_type(bed.namespace, "order-timeout");
    changed.config = "{\"a\":1}".into();
    let AdminAnswer::Type { row, revision, created: false } = put(&bed, changed.clone()).await else { panic!() };
    assert_eq!((row.active, revision.number, revision.config.as_str()), (2, 2, "{\"a\":1}"));
    let activate = |number| AdminOp::Activate { namespace_id: bed.namespace, name: name("order-timeout"), number };
    let back = bed.store.admin(activate(1)).await.unwrap();
    assert!(matches!(back, AdminAnswer::Type { row, revision, .. } if row.active == 1 && revision.number == 1));
    assert!(matches!(bed.store.admin(activate(3)).await.unwrap(), AdminAnswer::NotFound));
    let AdminAnswer::Type { revision, .. } = put(&bed, changed).await else { panic!() };
    assert_eq!(revision.number, 3, "compared with what is active");
    let catalogue = bed.store.read().catalogue().await.unwrap();
    let numbers: Vec<_> = catalogue.revisions.iter().map(|(_, r)| r.number).collect();
    assert_eq!((numbers, catalogue.types[0].active), (vec![1, 2, 3], 3));
    assert_eq!(catalogue.revisions[2].1, revision, "all of it is read back");
}

pub async fn a_type_needs_its_namespace_s_plugin(bed: Bed) {
    let mut unknown = put_type(bed.namespace, "unknown");
    unknown.digest = Digest::of(b"never uploaded");
    assert!(matches!(put(&bed, unknown).await, AdminAnswer::NotFound));
    let elsewhere = AdminOp::CreateNamespace { name: name("tenant") };
    let AdminAnswer::Namespace { row, .. } = bed.store.admin(elsewhere).await.unwrap() else { panic!() };
    assert!(matches!(put(&bed, put_type(row.id, "order-timeout")).await, AdminAnswer::NotFound));
    assert_eq!(bed.store.read().catalogue().await.unwrap().types.len(), 1);
}

pub async fn keys_are_found_by_their_hash_until_revoked(bed: Bed) {
    let create = |hash: u8, only_first| AdminOp::CreateApiKey {
        id: ApiKeyId::new(),
        namespace_id: bed.namespace,
        name: format!("key {hash}"),
        role: Role::Operator,
        hash: [hash; 32],
        created_by: "bootstrap".into(),
        only_first,
    };
    let AdminAnswer::ApiKey(first) = bed.store.admin(create(1, true)).await.unwrap() else { panic!() };
    assert!(matches!(bed.store.admin(create(2, true)).await.unwrap(), AdminAnswer::NotFirst));
    let AdminAnswer::ApiKey(second) = bed.store.admin(create(2, false)).await.unwrap() else { panic!() };
    let by_hash = |hash: u8| bed.store.read().api_key_by_hash([hash; 32]);
    assert_eq!(by_hash(1).await.unwrap().as_ref(), Some(&first));
    let revoke = |namespace_id| AdminOp::RevokeApiKey { namespace_id, id: first.id };
    let foreign = bed.store.admin(revoke(Some(NamespaceId(bed.namespace.0 + 1)))).await.unwrap();
    assert!(matches!(foreign, AdminAnswer::NotFound));
    let before = version(&bed).await;
    let AdminAnswer::ApiKey(revoked) = bed.store.admin(revoke(None)).await.unwrap() else { panic!() };
    assert_eq!((revoked.revoked_at, version(&bed).await), (Some(bed.now()), before + 1));
    assert_eq!(by_hash(1).await.unwrap(), None);
    assert!(matches!(bed.store.admin(create(3, true)).await.unwrap(), AdminAnswer::NotFirst), "there was one");
    let keys = bed.store.read().api_keys(Some(bed.namespace)).await.unwrap();
    assert_eq!(keys, [revoked, second]);
    assert!(bed.store.read().api_keys(Some(NamespaceId(99))).await.unwrap().is_empty());
}

pub async fn a_pause_stands_until_it_ends(bed: Bed) {
    let scopes = [Scope::All, Scope::Namespace(bed.namespace), Scope::Type(bed.type_id)];
    let put = |scope, until| PutPause { scope, reason: "r".into(), until, by: "key:a".into(), only_first: false };
    let pause = async |put: PutPause| match bed.store.admin(AdminOp::Pause(put)).await.unwrap() {
        AdminAnswer::Paused { pause, changed } => (pause, changed),
        other => panic!("{other:?}"),
    };
    let (noon, before) = (bed.now(), version(&bed).await);
    for scope in scopes {
        let (made, changed) = pause(put(scope, None)).await;
        let expected = Pause { scope, reason: "r".into(), since: noon, until: None, by: "key:a".into() };
        assert_eq!((made, changed), (expected, true));
    }
    let pauses = bed.store.read().pauses().await.unwrap();
    assert_eq!(scopes.map(|scope| pauses.at(scope, noon).is_some()), [true; 3]);
    assert_eq!(version(&bed).await, before + 3);
    bed.clock.advance(secs(10));
    assert!(!pause(put(scopes[0], None)).await.1, "what is so already changes nothing");
    let first = PutPause { only_first: true, reason: "another".into(), ..put(scopes[0], None) };
    assert_eq!(pause(first).await, (pauses.at(scopes[0], noon).unwrap().clone(), false));
    assert_eq!(version(&bed).await, before + 3);
    let until = Some(noon.saturating_add(secs(20)));
    let (longer, changed) = pause(put(scopes[0], until)).await;
    assert_eq!((longer.since, longer.until, changed), (noon, until, true));
    bed.clock.advance(secs(10));
    let pauses = bed.store.read().pauses().await.unwrap();
    assert!(pauses.at(scopes[0], bed.now()).is_none(), "its time has come");
    let resume = async |scope| match bed.store.admin(AdminOp::Resume(scope)).await.unwrap() {
        AdminAnswer::Resumed(before) => before,
        other => panic!("{other:?}"),
    };
    assert_eq!(resume(scopes[0]).await, None, "it has ended already");
    assert_eq!(version(&bed).await, before + 4);
    assert_eq!(resume(scopes[1]).await.map(|pause| pause.scope), Some(scopes[1]));
    assert_eq!(resume(scopes[1]).await, None);
    assert_eq!(version(&bed).await, before + 5);
    let (again, _) = pause(put(scopes[0], None)).await;
    assert_eq!(again.since, bed.now(), "a new one, not the old one over again");
}

pub async fn a_ping_writes(bed: Bed) {
    let before = version(&bed).await;
    bed.store.ping().await.unwrap();
    assert_eq!(version(&bed).await, before);
    let _: Name = name("still-here");
}

pub async fn what_is_sealed_is_its_namespace_s_own(bed: Bed) {
    let elsewhere = AdminOp::CreateNamespace { name: name("tenant") };
    let AdminAnswer::Namespace { row: tenant, .. } = bed.store.admin(elsewhere).await.unwrap() else { panic!() };
    let put = |namespace_id, kind, sealed: &[u8]| {
        let (open, updated_by) = ("{}".to_owned(), "key:test".to_owned());
        AdminOp::PutSealed(PutSealed {
            namespace_id,
            kind,
            name: name("shop"),
            open,
            sealed: sealed.into(),
            updated_by,
        })
    };
    for (kind, bytes) in [(SealedKind::Secret, b"one"), (SealedKind::DataSource, b"two")] {
        let made = bed.store.admin(put(bed.namespace, kind, bytes)).await.unwrap();
        assert!(matches!(made, AdminAnswer::Sealed { created: true, row } if row.sealed == bytes));
    }
    bed.store.admin(put(tenant.id, SealedKind::Secret, b"theirs")).await.unwrap();
    let again = bed.store.admin(put(bed.namespace, SealedKind::Secret, b"three")).await.unwrap();
    assert!(matches!(again, AdminAnswer::Sealed { created: false, row } if row.sealed == b"three"));

    let by_name = |namespace: &str, kind| bed.store.read().sealed_by_name(namespace.into(), kind, name("shop"));
    let found = by_name("default", SealedKind::Secret).await.unwrap().unwrap();
    assert_eq!((found.sealed.as_slice(), found.updated_at), (&b"three"[..], bed.now()));
    assert_eq!(by_name("tenant", SealedKind::Secret).await.unwrap().unwrap().sealed, b"theirs");
    assert_eq!(by_name("tenant", SealedKind::DataSource).await.unwrap(), None);
    assert_eq!(bed.store.read().sealed(bed.namespace, SealedKind::Secret).await.unwrap(), [found]);

    let delete = || AdminOp::DeleteSealed { namespace_id: bed.namespace, kind: SealedKind::Secret, name: name("shop") };
    assert!(matches!(bed.store.admin(delete()).await.unwrap(), AdminAnswer::Sealed { .. }));
    assert!(matches!(bed.store.admin(delete()).await.unwrap(), AdminAnswer::NotFound));
    assert_eq!(by_name("default", SealedKind::Secret).await.unwrap(), None);
    assert_eq!(by_name("default", SealedKind::DataSource).await.unwrap().unwrap().sealed, b"two");
    assert_eq!(by_name("tenant", SealedKind::Secret).await.unwrap().unwrap().sealed, b"theirs");
}

pub async fn what_is_revoked_stays_so_until_it_is_restored(bed: Bed) {
    let grant = |text: &str| text.parse::<Grant>().unwrap();
    let change = async |revoke: &[&str], restore: &[&str]| {
        let (namespace_id, name) = (bed.namespace, name("order-timeout"));
        let (revoke, restore) = (revoke.iter().map(|g| grant(g)).collect(), restore.iter().map(|g| grant(g)).collect());
        match bed.store.admin(AdminOp::Revoke(Revoke { namespace_id, name, revoke, restore })).await.unwrap() {
            AdminAnswer::Revoked(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    let before = version(&bed).await;
    assert!(bed.store.read().revoked().await.unwrap().is_empty());
    assert_eq!(change(&["sql:shop", "http:a.test"], &[]).await, ["compensate:http:a.test", "compensate:sql:shop"]);
    assert_eq!(change(&["sql:shop"], &["http:b.test"]).await.len(), 2, "what is so already changes nothing");
    assert_eq!(version(&bed).await, before + 1);
    // Whatever is pushed or activated meanwhile.
    bed.store.admin(AdminOp::PutType(put_type(bed.namespace, "order-timeout"))).await.unwrap();
    assert_eq!(change(&[], &["http:a.test"]).await, ["compensate:sql:shop"]);
    let revoked = bed.store.read().revoked().await.unwrap();
    assert_eq!(revoked.into_iter().collect::<Vec<_>>(), [(bed.type_id, [grant("sql:shop")].into())]);
    assert!(change(&[], &["sql:shop"]).await.is_empty());
    assert!(bed.store.read().revoked().await.unwrap().is_empty());
    let missing = Revoke { namespace_id: bed.namespace, name: name("none"), revoke: Vec::new(), restore: Vec::new() };
    assert!(matches!(bed.store.admin(AdminOp::Revoke(missing)).await.unwrap(), AdminAnswer::NotFound));
}
