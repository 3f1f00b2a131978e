//! Registering one timer.

use std::collections::BTreeMap;

use axum::{extract::State, http::StatusCode};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use utoipa::ToSchema;

use crate::{
    catalog::{Ready, check_payload},
    domain::{
        fingerprint::Registration,
        id::{TimerId, TimerKey},
        timer::{Due, MAX_LABEL_BYTES, MAX_LABELS, MAX_PAYLOAD_BYTES, NewTimer},
    },
    schema::Fault,
    store::op::Inserted,
};

use super::{
    super::{
        Api, Inner,
        auth::Caller,
        extract::{DueFields, Json, MessageId, given},
        problem::{Code, Error, Result},
    },
    Timer, TimerAnswer,
};

/// A timer to register. Give `due_at` or `delay`, or neither for the type's default delay.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "type": "order-timeout",
    "key": "A17",
    "payload": {
        "order_id": "A17", "user_id": "u1", "total_amount": 1000, "payment_method": "online",
        "items": [{"sku": "S1", "quantity": 1}], "coupon_ids": []
    },
    "delay": "30m",
    "labels": {"shop": "main"}
}))]
pub struct RegisterTimer {
    /// The name of a type in the namespace.
    r#type: String,
    /// The business's own key, unique with the type for the life of the timer: 1 to 256 bytes of UTF-8 without control
    /// characters, kept as given.
    #[schema(min_length = 1, max_length = 256)]
    key: String,
    /// Any JSON that fits the type's schema, at most 64 KiB; kept as given.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    /// RFC 3339, from 1970 to the year 9999. A time that has passed is due at once.
    #[serde(default, deserialize_with = "given")]
    #[schema(format = DateTime, nullable = false)]
    due_at: Option<String>,
    /// `500ms`, `30s`, `15m`, `2h`, `7d` or `P1DT2H`, from the server's now.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    delay: Option<String>,
    /// At most 32 of at most 128 bytes each.
    #[serde(default)]
    #[schema(required = false)]
    labels: BTreeMap<String, String>,
    /// Pins the timer to this revision of its type, whatever is active when it fires.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    revision: Option<i64>,
}

/// Registers a timer.
///
/// Idempotent by type and key: the same request again answers 200 with the timer as it is, whatever has become of it;
/// another request for the same key is refused as `key_conflict`. No `Idempotency-Key` is needed.
#[utoipa::path(
    post, path = "/v1/timers", operation_id = "register_timer", tag = "timers", request_body = RegisterTimer,
    responses(
        (status = 200, description = "It is registered already", body = Timer, headers(("ETag" = String, description = "The timer's version"))),
        (status = 201, description = "It is registered", body = Timer, headers(
            ("ETag" = String, description = "The timer's version"), ("Location" = String, description = "Where the timer is")
        )),
    )
)]
pub async fn register_timer(
    State(api): State<Api>,
    caller: Caller,
    MessageId(message_id): MessageId,
    Json(request): Json<RegisterTimer>,
) -> Result<TimerAnswer> {
    api.register(&caller, request, message_id).await
}

impl Inner {
    pub(super) async fn register(
        &self,
        caller: &Caller,
        request: RegisterTimer,
        message_id: Option<String>,
    ) -> Result<TimerAnswer> {
        let timer = self.checked(caller, request, message_id).await?;
        self.insert(timer).await
    }

    pub(super) async fn insert(&self, timer: NewTimer) -> Result<TimerAnswer> {
        match self.store.insert(timer).await? {
            Inserted::Created(timer) => {
                let timer = self.show(timer);
                let labels = [("namespace", timer.namespace.clone()), ("type", timer.r#type.clone())];
                metrics::counter!("lapse_timer_message_sent_total", &labels).increment(1);
                Ok(TimerAnswer { status: StatusCode::CREATED, timer })
            }
            Inserted::Same(timer) => Ok(TimerAnswer::ok(self.show(timer))),
            Inserted::Conflict(timer) => {
                let detail = "the key is taken by a registration that differs from this one";
                Err(Error::new(Code::KeyConflict, detail).with_timer(self.show(timer)))
            }
            Inserted::OutOfRange => Err(Error::at(Code::TimeInvalid, "/delay", "the delay leads beyond the year 9999")),
        }
    }

    /// A request that passes every check but the store's own.
    pub(super) async fn checked(
        &self,
        caller: &Caller,
        request: RegisterTimer,
        message_id: Option<String>,
    ) -> Result<NewTimer> {
        let key = read_key(&request.key)?;
        check_labels(&request.labels)?;
        let given = DueFields { due_at: request.due_at, delay: request.delay }.read()?;
        let snapshot = self.catalog.snapshot();
        let entry = snapshot.by_name(caller.namespace_id, &request.r#type).ok_or_else(|| {
            if snapshot.row_named(caller.namespace_id, &request.r#type).is_some() {
                return Error::unavailable(
                    "the type's plugin is not loaded on this node yet; send it again, nothing was stored",
                );
            }
            Error::at(Code::UnknownType, "/type", "there is no timer type of this name in the namespace")
        })?;
        let type_id = entry.row.id;
        let ready = match request.revision {
            None => std::sync::Arc::clone(&entry.active),
            Some(number) => self.catalog.usable_revision(type_id, number).await?,
        };
        let payload: Box<str> = request.payload.into();
        read_payload(&ready, &payload)?;
        let due = match given {
            Some(due) => due,
            None => default_delay(&ready)?,
        };
        let fingerprint = Registration {
            type_id,
            key: &key,
            payload: &payload,
            due: given,
            labels: &request.labels,
            revision: request.revision,
        }
        .fingerprint();
        Ok(NewTimer {
            id: TimerId::new(),
            namespace_id: caller.namespace_id,
            type_id,
            key,
            payload: payload.into(),
            labels: request.labels,
            due,
            revision: ready.revision.number,
            pinned: request.revision.is_some(),
            depth: 0,
            actor: caller.actor.clone(),
            message_id,
            fingerprint,
        })
    }
}

pub(in super::super) fn read_key(key: &str) -> Result<TimerKey> {
    key.parse().map_err(|e: crate::domain::id::NameError| Error::at(Code::PayloadInvalid, "/key", e.to_string()))
}

fn default_delay(ready: &Ready) -> Result<Due> {
    ready
        .revision
        .default_delay
        .or(ready.manifest.default_delay)
        .map(Due::After)
        .ok_or_else(|| Error::new(Code::TimeInvalid, "the type has no default delay: give due_at or delay"))
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<()> {
    let bad = |detail: String| Err(Error::at(Code::PayloadInvalid, "/labels", detail));
    if labels.len() > MAX_LABELS {
        return bad(format!("at most {MAX_LABELS} labels; this has {}", labels.len()));
    }
    for (name, value) in labels {
        if name.is_empty() || name.len() > MAX_LABEL_BYTES || value.len() > MAX_LABEL_BYTES {
            return bad(format!("a label's name is 1 to {MAX_LABEL_BYTES} bytes, its value at most {MAX_LABEL_BYTES}"));
        }
        if name.contains('\0') || value.contains('\0') {
            return bad("U+0000 cannot be stored".to_owned());
        }
    }
    Ok(())
}

/// Checks a payload: its size, that it can be stored, and that it fits the type's schema.
pub(in super::super) fn read_payload(ready: &Ready, payload: &str) -> Result<()> {
    if payload.len() > MAX_PAYLOAD_BYTES {
        let detail = format!("the payload has {} bytes; the limit is {MAX_PAYLOAD_BYTES} bytes", payload.len());
        return Err(Error::at(Code::TooLarge, "/payload", detail));
    }
    let value: Value = serde_json::from_str(payload).map_err(|e| {
        // The text is JSON; what it says is beyond what can be held: nested too deeply, a number without bounds.
        Error::at(Code::PayloadInvalid, "/payload", format!("the payload cannot be read: {e}"))
    })?;
    // The escape is rare: look for it before walking through the whole.
    if payload.contains("\\u0000") && has_nul(&value) {
        return Err(Error::at(Code::PayloadInvalid, "/payload", "U+0000 cannot be stored"));
    }
    check_payload(ready, &value).map_err(|faults| payload_faults("the payload does not fit the type's schema", faults))
}

pub(in super::super) fn payload_faults(what: &str, faults: Vec<Fault>) -> Error {
    // Several faults of one place follow each other: what an object lacks, say.
    let mut places: Vec<_> = faults.iter().map(|f| f.pointer.as_str()).collect();
    places.dedup();
    places.truncate(5);
    Error::new(Code::PayloadInvalid, format!("{what}: see {}", places.join(", "))).with_errors(faults)
}

/// Whether a string or a name in it has U+0000. Its depth is bounded by the reader's.
pub(in super::super) fn has_nul(value: &Value) -> bool {
    match value {
        Value::String(s) => s.contains('\0'),
        Value::Array(items) => items.iter().any(has_nul),
        Value::Object(members) => members.iter().any(|(name, v)| name.contains('\0') || has_nul(v)),
        _ => false,
    }
}
