//! From a plugin's answer into the domain's terms. Nothing gets past here that the store could not take: an answer that
//! breaks a bound or a form fails the call as `contract` or `output_too_large`.

use std::str::FromStr;

use serde_json::value::RawValue;

use super::bindings::lapse::plugin::types as wit;
use crate::{
    domain::{
        decision::{
            CompensationSpec, CounterSpec, Decision, Effects, EventSpec, Failure, FailureClass, FollowUpSpec,
            MAX_COMPENSATIONS, MAX_COUNTERS, MAX_EVENTS, MAX_FOLLOW_UPS, Verdict,
        },
        id::Name,
        time::{DurationMs, Timestamp},
        timer::{Due, MAX_PAYLOAD_BYTES},
    },
    plugin::{
        limits::{Limits, MESSAGE_BYTES},
        text::cut,
    },
};

fn contract(why: impl AsRef<str>) -> Failure {
    let message = cut(why.as_ref(), MESSAGE_BYTES).into_owned();
    Failure::new(FailureClass::Permanent, "contract", message)
}

pub fn decided(result: Result<wit::Decision, wit::Failure>, limits: &Limits) -> Result<Decision, Failure> {
    match result {
        Ok(given) => decision(given, limits),
        Err(given) => Err(failure(given).unwrap_or_else(|broken| broken)),
    }
}

pub fn compensated(result: Result<Option<String>, wit::Failure>, limits: &Limits) -> Result<Option<String>, Failure> {
    match result {
        Ok(answer) => {
            check_size(answer.as_ref().map_or(0, String::len), limits)?;
            answer.map(|json| checked("the answer", json, limits.output_bytes)).transpose()
        }
        Err(given) => Err(failure(given).unwrap_or_else(|broken| broken)),
    }
}

/// The plugin's own failure; an error if that is not a proper one either.
fn failure(given: wit::Failure) -> Result<Failure, Failure> {
    let class = match given.class {
        wit::FailureClass::Transient => FailureClass::Transient,
        wit::FailureClass::Conflict => FailureClass::Conflict,
        wit::FailureClass::Downstream => FailureClass::Downstream,
        wit::FailureClass::Permanent => FailureClass::Permanent,
    };
    let code = name("a failure's code", &given.code)?;
    let mut failure = Failure::new(class, code.as_str(), cut(&given.message, MESSAGE_BYTES));
    failure.retry_after = given.retry_after.map(|ms| duration("a failure's retry-after", ms)).transpose()?;
    Ok(failure)
}

fn decision(given: wit::Decision, limits: &Limits) -> Result<Decision, Failure> {
    check_size(size(&given), limits)?;
    let acts = !given.effects.compensations.is_empty() || !given.effects.follow_ups.is_empty();
    if acts && !matches!(given.verdict, wit::Verdict::Close(_)) {
        return Err(contract("only a decision to close may have compensations and follow-ups"));
    }
    let verdict = match given.verdict {
        wit::Verdict::Close(result) => {
            let result = result.map(|json| checked("the result", json, limits.output_bytes)).transpose()?;
            Verdict::Close { result }
        }
        wit::Verdict::Skip(reason) => Verdict::Skip { reason: cut(&reason, MESSAGE_BYTES).into_owned() },
        wit::Verdict::Retry(retry) => Verdict::Retry {
            after: retry.after.map(|ms| duration("a retry's after", ms)).transpose()?,
            reason: cut(&retry.reason, MESSAGE_BYTES).into_owned(),
        },
    };
    Ok(Decision { verdict, effects: effects(given.effects)? })
}

fn effects(given: wit::Effects) -> Result<Effects, Failure> {
    at_most("compensations", given.compensations.len(), MAX_COMPENSATIONS)?;
    at_most("follow-ups", given.follow_ups.len(), MAX_FOLLOW_UPS)?;
    at_most("events", given.events.len(), MAX_EVENTS)?;
    at_most("counters", given.counters.len(), MAX_COUNTERS)?;
    Ok(Effects {
        compensations: given.compensations.into_iter().map(compensation).collect::<Result<_, _>>()?,
        follow_ups: given.follow_ups.into_iter().map(follow_up).collect::<Result<_, _>>()?,
        events: given.events.into_iter().map(event).collect::<Result<_, _>>()?,
        counters: given.counters.into_iter().map(counter).collect::<Result<_, _>>()?,
    })
}

fn compensation(given: wit::CompensationSpec) -> Result<CompensationSpec, Failure> {
    Ok(CompensationSpec {
        kind: name("a compensation's kind", &given.kind)?,
        payload: checked("a compensation's payload", given.payload, MAX_PAYLOAD_BYTES)?,
    })
}

fn follow_up(given: wit::FollowUp) -> Result<FollowUpSpec, Failure> {
    let due = match given.due {
        None => None,
        Some(wit::Due::After(ms)) => Some(Due::After(duration("a follow-up's delay", ms)?)),
        Some(wit::Due::At(ms)) => {
            let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millis(ms).ok());
            Some(Due::At(at.ok_or_else(|| contract("a follow-up's due time is after the year 9999"))?))
        }
    };
    Ok(FollowUpSpec {
        timer_type: name("a follow-up's type", &given.timer_type)?,
        key: given.key.parse().map_err(|e| contract(format!("a follow-up's key is not one: {e}")))?,
        payload: checked("a follow-up's payload", given.payload, MAX_PAYLOAD_BYTES)?,
        due,
    })
}

fn event(given: wit::Event) -> Result<EventSpec, Failure> {
    let data = RawValue::from_string(given.data).map_err(|e| contract(format!("an event's data is not JSON: {e}")))?;
    Ok(EventSpec { name: name("an event's name", &given.name)?, data })
}

fn counter(given: wit::Counter) -> Result<CounterSpec, Failure> {
    Ok(CounterSpec { name: name("a counter's name", &given.name)?, value: given.value })
}

fn name(what: &str, given: &str) -> Result<Name, Failure> {
    Name::from_str(given).map_err(|e| contract(format!("{what} is not one: {e}")))
}

fn duration(what: &str, ms: u64) -> Result<DurationMs, Failure> {
    let length = DurationMs::from_millis(ms);
    if length > DurationMs::MAX { Err(contract(format!("{what} is longer than there is time"))) } else { Ok(length) }
}

fn at_most(what: &str, count: usize, limit: usize) -> Result<(), Failure> {
    if count > limit { Err(contract(format!("{count} {what} are more than {limit}"))) } else { Ok(()) }
}

/// The text, if it is one JSON value of at most `limit` bytes.
fn checked(what: &str, json: String, limit: usize) -> Result<String, Failure> {
    if json.len() > limit {
        return Err(contract(format!("{what} has {} bytes, and may have {limit}", json.len())));
    }
    match serde_json::from_str::<&RawValue>(&json) {
        Ok(_) => Ok(json),
        Err(e) => Err(contract(format!("{what} is not JSON: {e}"))),
    }
}

fn check_size(bytes: usize, limits: &Limits) -> Result<(), Failure> {
    if bytes <= limits.output_bytes {
        return Ok(());
    }
    let message = format!("the answer has {bytes} bytes, and may have {}", limits.output_bytes);
    Err(Failure::new(FailureClass::Permanent, "output_too_large", message))
}

/// The bytes of all text in a decision.
fn size(given: &wit::Decision) -> usize {
    let verdict = match &given.verdict {
        wit::Verdict::Close(result) => result.as_ref().map_or(0, String::len),
        wit::Verdict::Skip(reason) => reason.len(),
        wit::Verdict::Retry(retry) => retry.reason.len(),
    };
    let wit::Effects { compensations, follow_ups, events, counters } = &given.effects;
    verdict
        + compensations.iter().map(|c| c.kind.len() + c.payload.len()).sum::<usize>()
        + follow_ups.iter().map(|f| f.timer_type.len() + f.key.len() + f.payload.len()).sum::<usize>()
        + events.iter().map(|e| e.name.len() + e.data.len()).sum::<usize>()
        + counters.iter().map(|c| c.name.len()).sum::<usize>()
}
