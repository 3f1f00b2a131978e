//! Closes a group buy that is not full in time, and gives each member's money back.

mod gateway;
mod payload;

use lapse_plugin::{Capability, Compensation, Decision, Expiry, Export, Failure, Manifest, Plugin, Value, http, json};
use payload::{Config, Group, Member, Refund};

struct GroupBuy;

/// The kind of compensation. Timers in flight name it: a kind is never renamed.
const REFUND: &str = "refund";
const FULL: &str = "the group is full";

impl Plugin for GroupBuy {
    type Payload = Group;
    type Config = Config;

    fn manifest() -> Manifest {
        Manifest::new("group-buy", env!("CARGO_PKG_VERSION"))
            .payload_schema(include_str!("../payload.schema.json"))
            .config_schema(include_str!("../config.schema.json"))
            .default_delay("24h")
            .uses(Export::OnExpire, Capability::Http)
            .requires(Export::Compensate, Capability::Http)
    }

    fn on_expire(ctx: &Expiry, group: Group, config: Config) -> Result<Decision, Failure> {
        match &config.group_url {
            None if is_full(&group) => Ok(Decision::skip(FULL)),
            None => refund_all(&group.group_id, &group.members),
            Some(url) => match gateway::close_if_open(url, &group.group_id, ctx.fired_at)? {
                gateway::Closing::Full => Ok(Decision::skip(FULL)),
                gateway::Closing::Closed(members) => refund_all(&group.group_id, &members),
            },
        }
    }

    fn compensate(task: &Compensation, config: Config) -> Result<Option<Value>, Failure> {
        match task.kind.as_str() {
            REFUND => http::post_task(&config.refund_url, task).map(Some),
            other => Err(Failure::permanent("unknown_kind", format!("there is no compensation {other:?}"))),
        }
    }
}

fn is_full(group: &Group) -> bool {
    group.members.len() as u64 >= group.required.0
}

fn refund_all(group_id: &str, members: &[Member]) -> Result<Decision, Failure> {
    payload::check(members)?;
    let mut decision = Decision::close().result(&json!({"group_id": group_id, "refunds": members.len()}));
    for Member { user_id, order_id, amount } in members {
        decision = decision.compensate(REFUND, &Refund { group_id, user_id, order_id, amount: *amount });
    }
    Ok(decision)
}

lapse_plugin::export!(GroupBuy);
