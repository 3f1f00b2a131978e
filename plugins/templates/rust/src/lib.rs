//! Gives up a reservation that nobody has confirmed in time.

use lapse_plugin::{
    Capability, Compensation, Decision, Expiry, Export, Failure, Manifest, Plugin, Value, http::Request, json,
};
use serde::{Deserialize, Serialize};

struct Reservation;

/// What a timer carries. `payload.schema.json` says the same: what does not fit it is refused at registration.
#[derive(Serialize, Deserialize)]
struct Payload {
    reservation_id: String,
    item: String,
}

/// What an operator sets for the type: see `config.schema.json`.
#[derive(Deserialize)]
struct Config {
    release_url: Option<String>,
}

/// Timers in flight name the kinds of compensation: a kind is never renamed.
const RELEASE: &str = "release";

impl Plugin for Reservation {
    type Payload = Payload;
    type Config = Config;

    fn manifest() -> Manifest {
        Manifest::new("{{name}}", env!("CARGO_PKG_VERSION"))
            .payload_schema(include_str!("../payload.schema.json"))
            .config_schema(include_str!("../config.schema.json"))
            .default_delay("15m")
            .uses(Export::Compensate, Capability::Http)
    }

    /// Decides, and does nothing: what is to happen is said in the decision, and carried out after it is written.
    fn on_expire(_ctx: &Expiry, payload: Payload, config: Config) -> Result<Decision, Failure> {
        let decision = Decision::close().result(&json!({ "released": payload.item }));
        Ok(if config.release_url.is_some() { decision.compensate(RELEASE, &payload) } else { decision })
    }

    /// Carries a compensation out. It may have been carried out before: whoever is called goes by `Idempotency-Key`,
    /// which Lapse sends along.
    fn compensate(task: &Compensation, config: Config) -> Result<Option<Value>, Failure> {
        let (RELEASE, Some(url)) = (task.kind.as_str(), config.release_url) else {
            return Err(Failure::permanent("unknown_kind", format!("{:?} cannot be carried out", task.kind)));
        };
        let payload: Value =
            serde_json::from_str(&task.payload).map_err(|e| Failure::permanent("payload_invalid", e.to_string()))?;
        let answer = Request::post(&url).json(&payload).send()?;
        if answer.is_success() {
            Ok(Some(json!({ "status": answer.status() })))
        } else {
            Err(answer.failure("the release", task.now))
        }
    }
}

lapse_plugin::export!(Reservation);
