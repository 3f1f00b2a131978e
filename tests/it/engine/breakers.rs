//! A downstream that is away, with a real plugin, a real server that fails, and a clock that the test moves.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use axum::http::StatusCode;
use lapse::{
    breaker::Breakers,
    config::Config,
    domain::{
        compensation::{Compensation, CompensationState},
        id::TypeId,
        timer::{Due, NewTimer, State},
    },
    plugin::{Host, HostParams, WasmHost},
    schema::Schema,
    store::{
        admin::{AdminAnswer, AdminOp, PutType},
        read::CompensationQuery,
    },
};
use serde_json::{Value, json};

use super::rig::{NAMESPACE, Rig, Setup, at, eventually, ms};
use crate::{plugins::server::Server, support::guest::component};

const DRAIN_RATE: u32 = 20;

/// A server that can be away.
struct Service {
    server: Server,
    is_away: Arc<AtomicBool>,
}

impl Service {
    async fn start() -> Self {
        let is_away = Arc::new(AtomicBool::new(false));
        let away = Arc::clone(&is_away);
        let answer = move |_: &_| {
            let status = if away.load(SeqCst) { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
            (status, "{}")
        };
        Self { server: Server::start(answer).await, is_away }
    }

    fn asked(&self) -> usize {
        self.server.asked().len()
    }
}

async fn rig() -> Rig {
    let mut config = Config::default();
    config.dispatch.threads = 2;
    config.breaker.drain_rate = DRAIN_RATE;
    let (plugin, breaker) = (config.plugin.clone(), config.breaker.clone());
    let mut rig = Rig::on_host(Setup { config, ..Setup::default() }, |clock| {
        let params = HostParams {
            breakers: Breakers::new(breaker, clock),
            cache: Some(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled")),
            check_schema: |schema: &Value| Schema::compile(schema).map(drop),
        };
        Some(WasmHost::new(&plugin, params).unwrap() as Arc<dyn Host>)
    })
    .await;
    rig.start();
    rig
}

/// The type `order-timeout`, with these services.
async fn order_timeout(rig: &Rig, config: Value, grants: &[String]) -> TypeId {
    let bytes = component("order-timeout");
    let inspection = rig.catalog.host().inspect(bytes.clone()).await.unwrap();
    let put = AdminOp::PutPlugin {
        namespace_id: NAMESPACE,
        digest: inspection.digest,
        bytes,
        manifest: Box::new(inspection.manifest),
        imports: inspection.imports,
        created_by: "test".into(),
    };
    rig.store.admin(put).await.unwrap();
    let put = AdminOp::PutType(PutType {
        namespace_id: NAMESPACE,
        name: "order-timeout".parse().unwrap(),
        digest: inspection.digest,
        config: config.to_string(),
        grants: grants.iter().map(|g| g.parse().unwrap()).collect(),
        default_delay: None,
        retry: lapse::domain::backoff::RetryPolicy::EXPIRY,
        concurrency: Some(8),
        rate: None,
        created_by: "test".into(),
    });
    let AdminAnswer::Type { row, .. } = rig.store.admin(put).await.unwrap() else { panic!("no type") };
    rig.catalog.refresh().await.unwrap();
    row.id
}

fn order(type_id: TypeId, nth: usize, coupons: &[&str]) -> NewTimer {
    let payload = json!({
        "order_id": format!("o-{nth}"), "user_id": "u1", "total_amount": 1999, "payment_method": "online",
        "items": [{ "sku": "tea", "quantity": 1 }], "coupon_ids": coupons,
    });
    NewTimer { payload: payload.to_string(), ..Rig::new_timer(type_id, &format!("o-{nth}"), Due::At(at(100))) }
}

async fn compensations(rig: &Rig, type_id: TypeId, kind: &str) -> Vec<Compensation> {
    let query = CompensationQuery {
        types: vec![type_id],
        kind: Some(kind.parse().unwrap()),
        limit: 500,
        ..CompensationQuery::default()
    };
    rig.store.read().compensations(query).await.unwrap().items
}

fn done(all: &[Compensation]) -> usize {
    all.iter().filter(|c| c.state == CompensationState::Done).count()
}

/// Moves the clock, and lets the lanes follow it.
async fn pass(rig: &Rig, seconds: u64) {
    for _ in 0..seconds {
        rig.clock.advance(ms(1000));
        rig.quiet().await;
        eventually("the lanes to be through", || async {
            let now = lapse::clock::Clock::now(&*rig.clock);
            rig.store.read().compensation_lanes(now).await.unwrap().is_empty() && rig.lanes().running() == 0
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_down_for_ten_minutes_holds_up_its_own_and_drains_at_the_rate() {
    const ORDERS: usize = 100;
    let (inventory, coupons) = (Service::start().await, Service::start().await);
    let rig = rig().await;
    let config = json!({ "inventory_url": inventory.server.url("/"), "coupon_url": coupons.server.url("/") });
    let type_id = order_timeout(&rig, config, &[inventory.server.grant(), coupons.server.grant()]).await;
    inventory.is_away.store(true, SeqCst);
    for nth in 0..ORDERS {
        rig.insert(order(type_id, nth, &["c-1"])).await;
    }
    pass(&rig, 5).await;
    assert_eq!(done(&compensations(&rig, type_id, "return_coupon").await), ORDERS, "the others flow");

    pass(&rig, 595).await;
    let waiting = compensations(&rig, type_id, "release_inventory").await;
    assert!(waiting.iter().all(|c| c.state == CompensationState::Pending), "none is done, and none is dead");
    let asked = inventory.asked();
    let burnt: u32 = waiting.iter().map(|c| c.attempt - 1).sum();
    assert_eq!(asked, burnt as usize, "only what was really called has burnt an attempt");
    assert!(asked < ORDERS, "it was spared: {asked} calls in ten minutes");
    println!("{ORDERS} compensations waited for ten minutes with {asked} calls");

    inventory.is_away.store(false, SeqCst);
    let mut by_second = Vec::new();
    while done(&compensations(&rig, type_id, "release_inventory").await) < ORDERS {
        let before = inventory.asked();
        pass(&rig, 1).await;
        by_second.push(inventory.asked() - before);
        assert!(by_second.len() < 120, "it is back, and called again: {by_second:?}");
    }
    println!("calls by second after its return: {by_second:?}");
    let rate = DRAIN_RATE as usize;
    assert!(by_second.iter().all(|calls| *calls <= rate + rate / 4), "{by_second:?}");
    assert_eq!(inventory.asked() - asked, ORDERS, "each was called once more");
}

#[tokio::test(flavor = "multi_thread")]
async fn expiries_with_effects_wait_for_their_host_and_burn_no_attempt() {
    const ORDERS: usize = 40;
    let (orders, inventory) = (Service::start().await, Service::start().await);
    let rig = rig().await;
    let config = json!({
        "order_url": orders.server.url("/orders/"), "inventory_url": inventory.server.url("/"),
        "coupon_url": inventory.server.url("/"),
    });
    let grants = [format!("on-expire:{}", orders.server.grant()), inventory.server.grant()];
    let type_id = order_timeout(&rig, config, &grants).await;
    orders.is_away.store(true, SeqCst);
    let mut ids = Vec::new();
    for nth in 0..ORDERS {
        ids.push(rig.insert(order(type_id, nth, &[])).await.id);
    }
    pass(&rig, 60).await;
    let mut burnt = 0;
    for id in &ids {
        let timer = rig.timer(*id).await;
        assert_eq!(timer.state, State::Scheduled, "{timer:?}");
        burnt += timer.attempt - 1;
    }
    assert_eq!(orders.asked(), burnt as usize, "only what was really called has burnt an attempt");
    orders.is_away.store(false, SeqCst);
    pass(&rig, 90).await;
    for id in &ids {
        assert_eq!(rig.timer(*id).await.state, State::Closed);
    }
    assert_eq!(orders.asked() - burnt as usize, ORDERS, "each was called once more");
}
