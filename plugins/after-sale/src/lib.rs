//! Approves an after-sale case on the customer's behalf when the merchant has not answered in time.

mod gateway;
mod payload;

use gateway::{Approval, approve_if_unanswered};
use lapse_plugin::{Capability, Compensation, Decision, Expiry, Export, Failure, Manifest, Plugin, Value, http, json};
use payload::{Case, Config};

struct AfterSale;

/// The kinds of compensation. Timers in flight name them: a kind is never renamed.
const APPROVE: &str = "approve";
const NOTIFY: &str = "notify";
const ANSWERED: &str = "the merchant has answered";

impl Plugin for AfterSale {
    type Payload = Case;
    type Config = Config;

    fn manifest() -> Manifest {
        Manifest::new("after-sale", env!("CARGO_PKG_VERSION"))
            .payload_schema(include_str!("../payload.schema.json"))
            .config_schema(include_str!("../config.schema.json"))
            .default_delay("7d")
            .uses(Export::OnExpire, Capability::Http)
            .requires(Export::Compensate, Capability::Http)
    }

    fn on_expire(ctx: &Expiry, case: Case, config: Config) -> Result<Decision, Failure> {
        if config.checked
            && let Approval::MerchantAnswered = approve_if_unanswered(&config.case_url, &case, ctx.fired_at)?
        {
            return Ok(Decision::skip(ANSWERED));
        }
        let mut decision = Decision::close().result(&json!({"case_id": case.case_id, "checked": config.checked}));
        if !config.checked {
            decision = decision.compensate(APPROVE, &case);
        }
        if config.notify_url.is_some() {
            decision = decision.compensate(NOTIFY, &case);
        }
        Ok(decision)
    }

    fn compensate(task: &Compensation, config: Config) -> Result<Option<Value>, Failure> {
        match (task.kind.as_str(), &config.notify_url) {
            (APPROVE, _) => approve(task, &config),
            (NOTIFY, Some(url)) => http::post_task(url, task).map(Some),
            (NOTIFY, None) => Err(Failure::permanent("no_notify_url", "the type's notify_url is no longer set")),
            (other, _) => Err(Failure::permanent("unknown_kind", format!("there is no compensation {other:?}"))),
        }
    }
}

fn approve(task: &Compensation, config: &Config) -> Result<Option<Value>, Failure> {
    let case: Case = task.payload_as()?;
    match approve_if_unanswered(&config.case_url, &case, task.now)? {
        Approval::Approved => Ok(Some(json!({"approved": case.case_id}))),
        Approval::MerchantAnswered => Err(Failure::conflict("merchant_answered", ANSWERED)),
    }
}

lapse_plugin::export!(AfterSale);
