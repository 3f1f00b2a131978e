//! Acting on one timer: resolve, cancel, reschedule, fire, retry; by id, and by type and key.

use std::time::{Duration, Instant};

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    domain::{
        id::TimerId,
        machine::Command,
        timer::{self, State as TimerState},
    },
    store::op::{Act, Acted, Remember, Target},
};

use super::{
    super::{
        Api, Inner,
        auth::Caller,
        extract::{DueFields, IfMatch, Json, MessageId, OptionalJson, Path, check_note, given},
        problem::{Code, Error, Result},
    },
    Timer, TimerAnswer,
};

/// How often a timer that is being decided is looked at, while a resolve or cancel waits for the outcome.
const FIRING_POLL: Duration = Duration::from_millis(25);

/// Why.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "asked for by the customer"}))]
pub struct ActionRequest {
    /// For the audit; at most 1,000 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    reason: Option<String>,
}

/// That the business got there first.
#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"reason": "paid", "remember": true}))]
pub struct ResolveRequest {
    /// For the audit; at most 1,000 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    reason: Option<String>,
    /// If the key was never seen, leave a resolved timer behind: a registration that arrives later finds it.
    #[serde(default)]
    #[schema(required = false)]
    remember: bool,
}

/// When it is due instead: `due_at` or `delay`.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"delay": "15m", "reason": "the customer asked for more time"}))]
pub struct RescheduleRequest {
    /// RFC 3339, from 1970 to the year 9999. A time that has passed is due at once.
    #[serde(default, deserialize_with = "given")]
    #[schema(format = DateTime, nullable = false)]
    due_at: Option<String>,
    /// `500ms`, `30s`, `15m`, `2h`, `7d` or `P1DT2H`, from the server's now.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    delay: Option<String>,
    /// For the audit; at most 1,000 bytes.
    #[serde(default, deserialize_with = "given")]
    #[schema(nullable = false)]
    reason: Option<String>,
}

impl RescheduleRequest {
    fn command(self) -> Result<(Command, Option<String>)> {
        let due = DueFields { due_at: self.due_at, delay: self.delay }
            .read()?
            .ok_or_else(|| Error::new(Code::TimeInvalid, "give due_at or delay"))?;
        Ok((Command::Reschedule(due), self.reason))
    }
}

/// What every action takes.
struct ActParams {
    caller: Caller,
    target: Target,
    command: Command,
    if_match: IfMatch,
    message_id: Option<String>,
    reason: Option<String>,
    remember: Option<Remember>,
}

fn by_id(caller: &Caller, id: Uuid) -> Target {
    Target::Id { namespace_id: caller.namespace_id, id: TimerId(id) }
}

impl Inner {
    fn by_key(&self, caller: &Caller, name: &str, key: &str) -> Result<Target> {
        let type_id = self.type_id(caller, name)?;
        Ok(Target::Key { type_id, key: key.parse().map_err(|_| Error::not_found("timer"))? })
    }

    async fn act(&self, params: ActParams) -> Result<TimerAnswer> {
        if let Some(reason) = &params.reason {
            check_note(reason, "/reason")?;
        }
        if matches!(params.command, Command::Fire) {
            self.check_may_fire(&params.target).await?;
        }
        let act = Act {
            expected_version: self.expected_version(&params).await?,
            target: params.target,
            command: params.command,
            actor: params.caller.actor,
            reason: params.reason,
            message_id: params.message_id,
            remember: params.remember,
        };
        let refused = |code, detail: &str, timer| Error::new(code, detail).with_timer(self.show(timer));
        match self.act_and_wait(act).await? {
            Acted::Done(timer) | Acted::Same(timer) => Ok(TimerAnswer::ok(self.show(timer))),
            Acted::TooLate(timer) => {
                let detail = format!("the timer is already {}", timer.state.as_str());
                Err(refused(Code::TooLate, &detail, timer))
            }
            Acted::Firing(timer) => {
                Err(refused(Code::Firing, "the timer is being decided; ask again in a moment", timer).retry_after(1))
            }
            Acted::WrongState(timer) => {
                let detail = format!("a timer that is {} does not take this action", timer.state.as_str());
                Err(refused(Code::WrongState, &detail, timer))
            }
            Acted::VersionConflict(timer) => {
                let detail = format!("the timer is at version {}", timer.version);
                Err(refused(Code::VersionConflict, &detail, timer))
            }
            Acted::OutOfRange => Err(Error::at(Code::TimeInvalid, "/delay", "the delay leads beyond the year 9999")),
            Acted::NotFound => Err(Error::not_found("timer")),
        }
    }

    /// Resolve and cancel wait, within a bound, for the outcome of a decision that is under way.
    async fn act_and_wait(&self, act: Act) -> Result<Acted> {
        let waits = matches!(act.command, Command::Resolve | Command::Cancel);
        let until = Instant::now() + self.config.firing_wait.as_std();
        loop {
            match self.store.act(act.clone()).await? {
                Acted::Firing(timer) if waits && Instant::now() < until => {
                    self.wait_while_firing(&timer, until).await?;
                }
                acted => return Ok(acted),
            }
        }
    }

    async fn wait_while_firing(&self, seen: &timer::Timer, until: Instant) -> Result<()> {
        while Instant::now() < until {
            tokio::time::sleep(FIRING_POLL).await;
            let now = self.store.read().timer(seen.id).await?;
            if now.is_none_or(|t| t.state != TimerState::Firing) {
                break;
            }
        }
        Ok(())
    }

    /// The version that the store is to find. A header of which nothing can match asks for one that never is.
    async fn expected_version(&self, params: &ActParams) -> Result<Option<i64>> {
        const NEVER: i64 = -1;
        let IfMatch::Versions(versions) = &params.if_match else { return Ok(None) };
        if let [] | [_] = versions[..] {
            return Ok(Some(versions.first().copied().unwrap_or(NEVER)));
        }
        let store = self.store.read();
        let timer = match &params.target {
            Target::Id { id, .. } => store.timer(*id).await?,
            Target::Key { type_id, key } => store.timer_by_key(*type_id, key.clone()).await?,
        };
        Ok(Some(timer.map(|t| t.version).filter(|v| versions.contains(v)).unwrap_or(NEVER)))
    }
}

macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident, $by_key:ident, $verb:literal => $command:expr;)+) => { $(
        $(#[$doc])*
        #[utoipa::path(
            post, path = concat!("/v1/timers/{id}/", $verb), operation_id = stringify!($name), tag = "timers",
            request_body = ActionRequest,
            params(("id" = String, Path, format = Uuid, description = "The timer's id")),
            responses((status = 200, description = "The timer as it now is", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
        )]
        pub async fn $name(
            State(api): State<Api>,
            caller: Caller,
            Path(id): Path<Uuid>,
            if_match: IfMatch,
            MessageId(message_id): MessageId,
            OptionalJson(request): OptionalJson<ActionRequest>,
        ) -> Result<TimerAnswer> {
            let target = by_id(&caller, id);
            let ActionRequest { reason } = request;
            api.act(ActParams { caller, target, command: $command, if_match, message_id, reason, remember: None }).await
        }

        $(#[$doc])*
        #[utoipa::path(
            post, path = concat!("/v1/types/{type}/timers/{key}/", $verb), operation_id = stringify!($by_key), tag = "timers",
            request_body = ActionRequest,
            params(("type" = String, Path, description = "The type's name"), ("key" = String, Path, description = "The timer's key, percent-encoded")),
            responses((status = 200, description = "The timer as it now is", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
        )]
        pub async fn $by_key(
            State(api): State<Api>,
            caller: Caller,
            Path((name, key)): Path<(String, String)>,
            if_match: IfMatch,
            MessageId(message_id): MessageId,
            OptionalJson(request): OptionalJson<ActionRequest>,
        ) -> Result<TimerAnswer> {
            let target = api.by_key(&caller, &name, &key)?;
            let ActionRequest { reason } = request;
            api.act(ActParams { caller, target, command: $command, if_match, message_id, reason, remember: None }).await
        }
    )+ };
}

actions! {
    /// Withdraws a timer.
    ///
    /// From `scheduled` and `failed`. To end what the timer stands for by hand, fire it instead.
    cancel_timer, cancel_timer_by_key, "cancel" => Command::Cancel;
    /// Lets a scheduled timer expire now. While its type is paused, that is refused.
    fire_timer, fire_timer_by_key, "fire" => Command::Fire;
    /// Lets a failed timer try again, from its first attempt.
    retry_timer, retry_timer_by_key, "retry" => Command::Retry;
}

/// Resolves a timer: the business got there first.
///
/// From `scheduled` and `failed`. `too_late` is said only of a timer that has ended otherwise.
#[utoipa::path(
    post, path = "/v1/timers/{id}/resolve", operation_id = "resolve_timer", tag = "timers",
    request_body = ActionRequest,
    params(("id" = String, Path, format = Uuid, description = "The timer's id")),
    responses((status = 200, description = "The timer as it now is", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn resolve_timer(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<Uuid>,
    if_match: IfMatch,
    MessageId(message_id): MessageId,
    OptionalJson(request): OptionalJson<ActionRequest>,
) -> Result<TimerAnswer> {
    let target = by_id(&caller, id);
    let (command, reason) = (Command::Resolve, request.reason);
    api.act(ActParams { caller, target, command, if_match, message_id, reason, remember: None }).await
}

/// Resolves a timer by type and key: the business got there first.
///
/// With `remember`, a key that was never seen is remembered as resolved, so that a registration that arrives late
/// closes nothing.
#[utoipa::path(
    post, path = "/v1/types/{type}/timers/{key}/resolve", operation_id = "resolve_timer_by_key", tag = "timers",
    request_body = ResolveRequest,
    params(("type" = String, Path, description = "The type's name"), ("key" = String, Path, description = "The timer's key, percent-encoded")),
    responses((status = 200, description = "The timer as it now is", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn resolve_timer_by_key(
    State(api): State<Api>,
    caller: Caller,
    Path((name, key)): Path<(String, String)>,
    if_match: IfMatch,
    MessageId(message_id): MessageId,
    OptionalJson(request): OptionalJson<ResolveRequest>,
) -> Result<TimerAnswer> {
    let target = api.by_key(&caller, &name, &key)?;
    // Whoever names a version has seen the timer: there is nothing to remember.
    let remember = match if_match {
        IfMatch::Any if request.remember => Some(api.remembered(&caller, &name)?),
        _ => None,
    };
    let (command, reason) = (Command::Resolve, request.reason);
    api.act(ActParams { caller, target, command, if_match, message_id, reason, remember }).await
}

impl Inner {
    fn remembered(&self, caller: &Caller, name: &str) -> Result<Remember> {
        let snapshot = self.catalog.snapshot();
        let row = snapshot.row_named(caller.namespace_id, name).ok_or_else(|| Error::not_found("timer type"))?;
        Ok(Remember { id: TimerId::new(), namespace_id: caller.namespace_id, revision: row.active })
    }
}

/// Moves a scheduled timer's due time.
#[utoipa::path(
    post, path = "/v1/timers/{id}/reschedule", operation_id = "reschedule_timer", tag = "timers",
    request_body = RescheduleRequest,
    params(("id" = String, Path, format = Uuid, description = "The timer's id")),
    responses((status = 200, description = "The timer as it now is", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn reschedule_timer(
    State(api): State<Api>,
    caller: Caller,
    Path(id): Path<Uuid>,
    if_match: IfMatch,
    MessageId(message_id): MessageId,
    Json(request): Json<RescheduleRequest>,
) -> Result<TimerAnswer> {
    let target = by_id(&caller, id);
    let (command, reason) = request.command()?;
    api.act(ActParams { caller, target, command, if_match, message_id, reason, remember: None }).await
}

/// Moves a scheduled timer's due time, by type and key.
#[utoipa::path(
    post, path = "/v1/types/{type}/timers/{key}/reschedule", operation_id = "reschedule_timer_by_key", tag = "timers",
    request_body = RescheduleRequest,
    params(("type" = String, Path, description = "The type's name"), ("key" = String, Path, description = "The timer's key, percent-encoded")),
    responses((status = 200, description = "The timer as it now is", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn reschedule_timer_by_key(
    State(api): State<Api>,
    caller: Caller,
    Path((name, key)): Path<(String, String)>,
    if_match: IfMatch,
    MessageId(message_id): MessageId,
    Json(request): Json<RescheduleRequest>,
) -> Result<TimerAnswer> {
    let target = api.by_key(&caller, &name, &key)?;
    let (command, reason) = request.command()?;
    api.act(ActParams { caller, target, command, if_match, message_id, reason, remember: None }).await
}
