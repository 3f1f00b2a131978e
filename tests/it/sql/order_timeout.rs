//! The order timeout in the business's own database: the wallet's table to the letter, and the race with the payment.

use std::sync::Arc;

use lapse::{
    domain::decision::{Decision, Expiry, FailureClass, Verdict},
    plugin::{Keeper, Plugin, Rights, Run},
};
use rstest::rstest;
use serde_json::json;

use super::bed::{Bed, Shelf, host, name};
use crate::{
    plugins::{
        host::{expiry, load, rights},
        reference::{End, Given, run_to_the_end_with},
    },
    support::guest::component,
};

struct Shop {
    bed: Bed,
    plugin: Arc<dyn Plugin>,
    rights: Rights,
}

impl Shop {
    async fn on(bed: Bed) -> Self {
        for table in tables(&bed) {
            bed.execute(&table).await;
        }
        let shelf = Arc::<Shelf>::default();
        shelf.sources.lock().insert(("default".into(), name("shop")), bed.source.clone());
        let host = host(shelf as Arc<dyn Keeper>, bed.databases.clone());
        let plugin = load(&host, component("order-timeout-sql")).await;
        Self { bed, plugin, rights: rights(&["on-expire:sql:shop"]) }
    }

    /// Both databases that a shop would be on.
    async fn each() -> Vec<Self> {
        vec![Self::on(Bed::postgres().await).await, Self::on(Bed::mariadb()).await]
    }

    async fn order(&self, id: &str, method: &str, total: &str, part: &str) {
        let insert = format!(
            "INSERT INTO orders (id, user_id, status, version, payment_method, total_amount, wallet_payment_amount)
             VALUES ('{id}', 'u-{id}', 'pending', 3, '{method}', {total}, {part})"
        );
        self.bed.execute(&insert).await;
    }

    async fn wallet(&self, id: &str, frozen: &str) {
        self.bed.execute(&format!("INSERT INTO wallets VALUES ('u-{id}', 10000, {frozen})")).await;
    }

    async fn expire(&self, id: &str) -> Run<Decision> {
        self.plugin.decide_with_effects(&due(id), &self.rights).await
    }

    /// Status and version of the order, its outbox rows, what is frozen.
    async fn shows(&self, id: &str) -> String {
        let frozen = format!("(SELECT frozen FROM wallets WHERE user_id = 'u-{id}')");
        let rows = format!("(SELECT count(*) FROM order_outbox WHERE order_id = '{id}')");
        self.bed.row(&format!("SELECT status, version, {rows}, {frozen} FROM orders WHERE id = '{id}'")).await
    }
}

fn tables(bed: &Bed) -> Vec<String> {
    let (time, json) = if bed.is_mariadb() { ("datetime(3)", "json") } else { ("timestamptz", "jsonb") };
    [
        format!(
            "CREATE TABLE orders (id varchar(128) PRIMARY KEY, user_id varchar(128) NOT NULL, status varchar(64) NOT NULL,
             version bigint NOT NULL, payment_method varchar(64) NOT NULL, total_amount bigint NOT NULL,
             wallet_payment_amount decimal(12,2), closed_at {time})"
        ),
        format!(
            "CREATE TABLE order_outbox (id varchar(128) PRIMARY KEY, order_id varchar(128) NOT NULL,
             kind varchar(64) NOT NULL, payload {json} NOT NULL, created_at {time} NOT NULL)"
        ),
        "CREATE TABLE wallets (user_id varchar(128) PRIMARY KEY, balance bigint NOT NULL, frozen decimal(12,2) NOT NULL)"
            .into(),
    ]
    .into()
}

fn due(id: &str) -> Expiry {
    let payload = json!({"order_id": id, "payment_method": "wallet"});
    Expiry { idempotency_key: format!("timer-of-{id}"), key: id.into(), ..expiry(&payload, &json!({"source": "shop"})) }
}

fn verdict(run: &Run<Decision>) -> &Verdict {
    &run.result.as_ref().unwrap_or_else(|e| panic!("{e:?}")).verdict
}

#[tokio::test]
async fn the_wallet_s_table_to_the_letter() {
    // Method, total, the wallet's part, what is frozen before and after, and whether the order is closed.
    let table = [
        ("wallet", "12900", "null", "13000.00", "100.00", true),
        ("wallet", "0", "null", "5.00", "5.00", true),
        ("mixed", "12900", "2900.50", "2900.50", "0.00", true),
        ("online", "12900", "null", "500.00", "500.00", true),
        ("online", "12900", "0", "500.00", "500.00", true),
        ("wechat", "12900", "2900", "500.00", "500.00", true),
        ("alipay", "12900", "null", "500.00", "500.00", true),
        ("backoffice_wallet", "12900", "null", "500.00", "500.00", false),
        ("offline", "12900", "null", "500.00", "500.00", false),
    ];
    for shop in Shop::each().await {
        for (n, (method, total, part, before, after, closes)) in table.into_iter().enumerate() {
            let (id, what) = (format!("A{n}"), format!("{} {method}", shop.bed.name()));
            shop.order(&id, method, total, part).await;
            shop.wallet(&id, before).await;
            let run = shop.expire(&id).await;
            let shows = if closes { format!("closed,4,1,{after}") } else { format!("pending,3,0,{after}") };
            assert_eq!(shop.shows(&id).await, shows, "{what}: {run:?}");
            let counters = &run.result.as_ref().unwrap().effects.counters;
            let counted = counters.iter().any(|c| c.name.as_str() == "wallet_unfrozen" && c.value == 1);
            assert_eq!(counted, before != after, "{what}");
            match verdict(&run) {
                Verdict::Close { .. } => assert!(closes, "{what}"),
                Verdict::Skip { reason } => assert!(!closes && reason.contains("paid at its creation"), "{what}"),
                other @ Verdict::Retry { .. } => panic!("{what}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_wallet_that_cannot_be_unfrozen_rolls_all_back_and_goes_to_a_person() {
    for shop in Shop::each().await {
        shop.order("none", "wallet", "12900", "null").await;
        shop.order("little", "mixed", "12900", "2900").await;
        shop.wallet("little", "2899.99").await;
        for (id, says) in [
            ("none", "there is no wallet of u-none, and 12900 is to be unfrozen"),
            ("little", "the wallet of u-little has 2899.99 frozen, and 2900.00 is to be unfrozen"),
        ] {
            let before = shop.shows(id).await;
            let run = shop.expire(id).await;
            let failure = run.result.as_ref().unwrap_err();
            let what = (failure.class, failure.code.as_str(), failure.message.as_str());
            assert_eq!(what, (FailureClass::Permanent, "wallet_unfreeze_failed", says), "{}", shop.bed.name());
            let counted: Vec<_> = run.counters.iter().map(|c| (c.name.as_str(), c.value)).collect();
            assert_eq!(counted, [("wallet_unfreeze_failed", 1)]);
            assert_eq!(shop.shows(id).await, before, "{}: nothing was done", shop.bed.name());
        }
        // Mended by a person, and retried.
        shop.bed.execute("UPDATE wallets SET frozen = 3000 WHERE user_id = 'u-little'").await;
        assert!(matches!(verdict(&shop.expire("little").await), Verdict::Close { .. }));
        assert_eq!(shop.shows("little").await, "closed,4,1,100.00");
    }
}

#[tokio::test]
async fn a_second_run_and_what_others_have_done_change_nothing() {
    for shop in Shop::each().await {
        shop.order("A", "wallet", "100", "null").await;
        shop.wallet("A", "250").await;
        for _ in 0..3 {
            assert!(matches!(verdict(&shop.expire("A").await), Verdict::Close { .. }));
            assert_eq!(shop.shows("A").await, "closed,4,1,150.00", "{}", shop.bed.name());
        }
        shop.order("B", "wallet", "100", "null").await;
        shop.wallet("B", "250").await;
        for (status, reason) in
            [("paid", "the order is paid"), ("closed", "closed by someone else"), ("shipped", "the order is shipped")]
        {
            shop.bed.execute(&format!("UPDATE orders SET status = '{status}' WHERE id = 'B'")).await;
            let run = shop.expire("B").await;
            assert!(matches!(verdict(&run), Verdict::Skip { reason: r } if r.contains(reason)), "{run:?}");
            assert_eq!(shop.shows("B").await, format!("{status},3,0,250.00"), "{}", shop.bed.name());
        }
        let missing = shop.expire("none").await.result.unwrap_err();
        assert_eq!((missing.class, missing.code.as_str()), (FailureClass::Permanent, "order_not_found"));
    }
}

/// The payment, as a shop makes it, against the timer, at the same moment: paid and nothing unfrozen, or closed and
/// unfrozen once. 2,000 times in the soak.
#[rstest]
#[case::postgres(false)]
#[case::mariadb(true)]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn paid_or_closed_but_never_both(#[case] on_mariadb: bool) {
    let rounds: u32 = if std::env::var_os("LAPSE_SOAK").is_some() { 2_000 } else { 300 };
    let shop = Shop::on(if on_mariadb { Bed::mariadb() } else { Bed::postgres().await }).await;
    let mut till = shop.bed.till().await;
    let rows = |row: fn(u32) -> String| (1..=rounds).map(row).collect::<Vec<_>>().join(", ");
    let orders = rows(|n| format!("('A{n}', 'u-A{n}', 'pending', 3, 'wallet', 100, null, null)"));
    till.change(&format!("INSERT INTO orders VALUES {orders}")).await;
    till.change(&format!("INSERT INTO wallets VALUES {}", rows(|n| format!("('u-A{n}', 1000, 100)")))).await;
    let (mut paid, mut closed) = (0, 0);
    for n in 1..=rounds {
        let id = format!("A{n}");
        // From before the timer has looked at the order until after it has closed it.
        let head_start = std::time::Duration::from_micros(u64::from(rand::random::<u16>()) % 6_000);
        let payment = async {
            tokio::time::sleep(head_start).await;
            let set = "UPDATE orders SET status = 'paid', version = version + 1";
            till.change(&format!("{set} WHERE id = '{id}' AND status = 'pending'")).await == 1
        };
        let (was_paid, run) = tokio::join!(payment, shop.expire(&id));
        let was_closed = matches!(verdict(&run), Verdict::Close { .. });
        assert_ne!(was_paid, was_closed, "round {n}: {run:?}");
        let shows = if was_paid { "paid,4,0,100.00" } else { "closed,4,1,0.00" };
        assert_eq!(shop.shows(&id).await, shows, "round {n}");
        *(if was_paid { &mut paid } else { &mut closed }) += 1;
    }
    println!("{rounds} rounds: {paid} paid, {closed} closed");
    assert!(
        paid > rounds / 50 && closed > rounds / 50,
        "one of the two never had a chance: {paid} paid, {closed} closed"
    );
}

/// As a team sets it up: by the command line, on a real server.
#[test]
fn an_order_expires_on_a_real_server() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let shop = runtime.block_on(async { Shop::on(Bed::postgres().await).await });
    runtime.block_on(async {
        shop.order("A17", "mixed", "12900", "2900").await;
        shop.wallet("A17", "2900").await;
        shop.order("B18", "wallet", "12900", "null").await;
    });
    let (grants, url) = (["on-expire:sql:shop".to_owned()], shop.bed.url());
    let run = |key: &str, method: &str| {
        let given = Given {
            plugin: "order-timeout-sql",
            config: json!({"source": "shop"}),
            grants: &grants,
            key,
            payload: json!({"order_id": key, "payment_method": method}),
        };
        run_to_the_end_with(given, |dev, folder| {
            let file = folder.join("shop.url");
            std::fs::write(&file, format!("{url}\n")).unwrap();
            let set = dev.json(&["datasource", "set", "shop", "--url-file", file.to_str().unwrap()]);
            assert_eq!(set["kind"], "postgres");
            assert_eq!(dev.json(&["datasource", "check", "shop"])["ok"], true);
        })
    };
    let counted = |end: &End, name: &str| {
        let line = |l: &&str| l.starts_with("lapse_plugin_counter_total{") && l.contains(&format!("name=\"{name}\""));
        end.metrics.lines().find(line).map(|line| line.rsplit(' ').next().unwrap().to_owned())
    };
    let end = run("A17", "mixed");
    assert_eq!(
        (&end.timer["state"], &end.timer["outcome"]["result"]["unfrozen"]),
        (&json!("closed"), &json!("2900.00"))
    );
    // It could have done something: it was claimed first.
    assert_eq!(end.kinds, ["registered", "claimed", "closed"]);
    assert_eq!(counted(&end, "wallet_unfrozen").as_deref(), Some("1"));
    assert_eq!(runtime.block_on(shop.shows("A17")), "closed,4,1,0.00");

    let end = run("B18", "wallet");
    assert_eq!(
        (&end.timer["state"], end.timer["outcome"]["failure"]["code"].as_str()),
        (&json!("failed"), Some("wallet_unfreeze_failed")),
        "{}",
        end.timer
    );
    assert_eq!(counted(&end, "wallet_unfreeze_failed").as_deref(), Some("1"));
    assert_eq!(counted(&end, "wallet_unfrozen"), None);
}
