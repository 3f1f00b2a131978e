//! From what is known of a timer to every reason that could hold it back, and the one that decides.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Check, CheckStatus, Fix, FixAction, ReasonCode, is_settled, words::length};
use crate::{
    breaker,
    domain::{
        audit::Event,
        pause::{Pause, Scope},
        time::{DurationMs, Timestamp},
        timer::{State, Timer},
    },
    stats::{Broker, Lane},
};

/// What is overdue by less is in a node's hand; then the backlog looks for it.
const IN_HAND: DurationMs = DurationMs::from_secs(5);

/// What is known.
pub(super) struct Facts<'a> {
    pub now: Timestamp,
    pub timer: &'a Timer,
    pub type_name: String,
    /// The latest, whose number is the timer's version.
    pub last_event: Option<Event>,
    pub pause: Option<Pause>,
    pub lane: Option<Lane>,
    /// Expiries of the type that a node starts in a second.
    pub rate: Option<u32>,
    /// Those that are not closed, of what its decision may call.
    pub breakers: Vec<breaker::Snapshot>,
    pub broker: Broker,
    pub plugin: Plugin,
}

/// Whether the revision that the timer runs can be run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plugin {
    Ready,
    /// The active revision cannot be loaded, and the one before serves on.
    Older {
        serves: i64,
        wanted: i64,
    },
    /// The type cannot be loaded at all.
    NotLoaded,
    /// The timer is pinned to a revision that is not there.
    NoRevision(i64),
}

/// The first of these that blocks is the reason: causes before what they lead to.
const DECIDES: [ReasonCode; 10] = [
    ReasonCode::NotDue,
    ReasonCode::Claimed,
    ReasonCode::Paused,
    ReasonCode::PluginUnavailable,
    ReasonCode::BreakerOpen,
    ReasonCode::WaitingToRetry,
    ReasonCode::LaneFull,
    ReasonCode::RateLimited,
    ReasonCode::AwaitingBacklog,
    ReasonCode::BrokerAway,
];

pub(super) fn decisive(checks: &[Check]) -> &Check {
    let blocking = |code: &ReasonCode| checks.iter().find(|c| c.code == *code && c.status == CheckStatus::Blocking);
    DECIDES
        .iter()
        .find_map(blocking)
        .or_else(|| checks.iter().find(|c| c.code == ReasonCode::AwaitingBacklog))
        .unwrap_or(&checks[0])
}

/// At least one.
pub(super) fn checks(facts: &Facts<'_>) -> Vec<Check> {
    if is_settled(facts.timer.state) {
        return vec![settled(facts)];
    }
    vec![
        not_due(facts),
        paused(facts),
        lane_full(facts),
        rate_limited(facts),
        breaker_open(facts),
        waiting_to_retry(facts),
        claimed(facts),
        awaiting_backlog(facts),
        broker_away(facts),
        plugin_unavailable(facts),
    ]
}

impl Facts<'_> {
    fn is_due(&self) -> bool {
        self.timer.due_at <= self.now
    }

    fn run_at(&self) -> Timestamp {
        self.timer.run_at.unwrap_or(self.timer.due_at)
    }

    /// It could fire at this moment, as far as its own row says.
    fn is_ready(&self) -> bool {
        self.timer.state == State::Scheduled && self.is_due() && self.run_at() <= self.now
    }

    fn is_waiting(&self) -> bool {
        self.timer.state == State::Scheduled && self.is_due() && self.run_at() > self.now
    }

    fn is_claimed(&self) -> bool {
        self.timer.state == State::Firing && self.run_at() > self.now
    }

    fn detail(&self, name: &str) -> Option<&Value> {
        self.last_event.as_ref()?.detail.get(name)
    }
}

impl Check {
    fn new(code: ReasonCode, status: CheckStatus, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        Self { code, status, sentence, since: None, until: None, evidence: BTreeMap::new(), fix: None }
    }

    fn pass(code: ReasonCode, sentence: impl Into<String>) -> Self {
        Self::new(code, CheckStatus::Pass, sentence)
    }

    /// Blocking if `is`.
    fn blocking_if(is: bool, code: ReasonCode, sentence: impl Into<String>) -> Self {
        Self::new(code, if is { CheckStatus::Blocking } else { CheckStatus::Pass }, sentence)
    }

    fn since(self, since: Timestamp) -> Self {
        Self { since: Some(since), ..self }
    }

    fn until(self, until: Option<Timestamp>) -> Self {
        Self { until, ..self }
    }

    fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if !value.is_null() {
            self.evidence.insert(name, value);
        }
        self
    }

    fn fix(self, action: FixAction, sentence: &str) -> Self {
        Self { fix: Some(Fix { action, sentence: sentence.to_owned() }), ..self }
    }
}

fn not_due(facts: &Facts<'_>) -> Check {
    let due_at = facts.timer.due_at;
    if facts.is_due() {
        let sentence = format!("It was due {} ago.", length(facts.now.since(due_at)));
        return Check::pass(ReasonCode::NotDue, sentence).since(due_at);
    }
    let sentence = format!("It is due in {}.", length(due_at.since(facts.now)));
    Check::new(ReasonCode::NotDue, CheckStatus::Blocking, sentence)
        .until(Some(due_at))
        .fix(FixAction::FireTimer, "Fire it now, if it is not to wait for its due time.")
}

fn paused(facts: &Facts<'_>) -> Check {
    let Some(pause) = &facts.pause else {
        return Check::pass(ReasonCode::Paused, "Neither its type, its namespace nor all firing is paused.");
    };
    let what = match pause.scope {
        Scope::Type(_) => format!("Its type {} is paused", facts.type_name),
        Scope::Namespace(_) => "Its namespace is paused".to_owned(),
        Scope::All => "All firing is paused".to_owned(),
    };
    if facts.timer.state == State::Firing {
        return Check::pass(ReasonCode::Paused, format!("{what}, but it was taken up before.")).since(pause.since);
    }
    Check::new(ReasonCode::Paused, CheckStatus::Blocking, format!("{what}: {}", pause.reason))
        .since(pause.since)
        .until(pause.until)
        .with("scope", pause.scope.as_str())
        .with("by", pause.by.as_str())
        .with("reason", pause.reason.as_str())
        .fix(FixAction::Resume, "Resume it; what is overdue then drains at the set rate.")
}

fn lane_full(facts: &Facts<'_>) -> Check {
    let Some(lane) = facts.lane else {
        return Check::pass(ReasonCode::LaneFull, "Nothing of its type waits or runs on this node.");
    };
    let full = lane.queued >= lane.room || (lane.queued > 0 && lane.running >= lane.width);
    let sentence = if full {
        format!("Its type's lane is full on this node: {} wait and {} run.", lane.queued, lane.running)
    } else {
        "Its type's lane has room on this node.".to_owned()
    };
    let check = Check::blocking_if(full && facts.is_ready(), ReasonCode::LaneFull, sentence)
        .with("queued", lane.queued)
        .with("running", lane.running)
        .with("width", lane.width);
    if check.status == CheckStatus::Pass {
        return check;
    }
    check.fix(FixAction::Wait, "Its turn comes; give the type a higher concurrency if this lasts.")
}

fn rate_limited(facts: &Facts<'_>) -> Check {
    let Some(rate) = facts.rate else {
        return Check::pass(ReasonCode::RateLimited, "Its type has no rate limit.");
    };
    let limited = facts.lane.is_some_and(|lane| lane.is_rated);
    let sentence = if limited {
        format!("Its type is limited to {rate} a second on each node, and others go first.")
    } else {
        format!("Its type's limit of {rate} a second on each node is not reached.")
    };
    let check = Check::blocking_if(limited && facts.is_ready(), ReasonCode::RateLimited, sentence).with("rate", rate);
    if check.status == CheckStatus::Pass {
        return check;
    }
    check.fix(FixAction::Wait, "Its turn comes; give the type a higher rate if this lasts.")
}

fn breaker_open(facts: &Facts<'_>) -> Check {
    let Some(open) = facts.breakers.first() else {
        return Check::pass(ReasonCode::BreakerOpen, "Nothing that its decision calls is away.");
    };
    let host = &open.downstream.host;
    let held_up = facts.is_ready() || facts.is_waiting();
    let sentence = format!("{host}, which its decision calls, is not called freely: {}.", open.last_error);
    let mut check = Check::blocking_if(held_up, ReasonCode::BreakerOpen, sentence)
        .until(open.until)
        .with("host", host.as_str())
        .with("breaker", open.state.as_str())
        .with("failures", open.failures)
        .fix(FixAction::Operator, "See to the host; it is tried again by itself.");
    check.since = open.opened_at;
    check
}

fn waiting_to_retry(facts: &Facts<'_>) -> Check {
    if !facts.is_waiting() {
        return Check::pass(ReasonCode::WaitingToRetry, "It does not wait for another attempt.");
    }
    let run_at = facts.run_at();
    let (attempt, wait) = (facts.timer.attempt, length(run_at.since(facts.now)));
    let sentence = format!("Attempt {attempt} runs in {wait}.");
    let failure = facts.detail("failure");
    let of = |name: &str| failure.and_then(|f| f.get(name)).cloned().unwrap_or(Value::Null);
    let mut check = Check::new(ReasonCode::WaitingToRetry, CheckStatus::Blocking, sentence)
        .until(Some(run_at))
        .with("attempt", attempt)
        .with("reason", facts.detail("reason").cloned().unwrap_or(Value::Null))
        .with("error_class", of("class"))
        .with("error_code", of("code"))
        .with("error_message", of("message"))
        .with("host", of("host"))
        .fix(FixAction::Wait, "It is tried again by itself.");
    check.since = facts.last_event.as_ref().map(|e| e.at);
    check
}

fn claimed(facts: &Facts<'_>) -> Check {
    if !facts.is_claimed() {
        return Check::pass(ReasonCode::Claimed, "No node has it under a lease.");
    }
    let node = facts.detail("node").and_then(Value::as_str).unwrap_or("A node").to_owned();
    let left = length(facts.run_at().since(facts.now));
    let sentence = format!("{node} is deciding it; its lease ends in {left}.");
    let mut check = Check::new(ReasonCode::Claimed, CheckStatus::Blocking, sentence)
        .until(Some(facts.run_at()))
        .with("node", node)
        .with("attempt", facts.timer.attempt)
        .fix(FixAction::Wait, "If the node is gone, another takes it over once the lease has ended.");
    check.since = facts.last_event.as_ref().map(|e| e.at);
    check
}

fn awaiting_backlog(facts: &Facts<'_>) -> Check {
    let code = ReasonCode::AwaitingBacklog;
    let (now, run_at) = (facts.now, facts.run_at());
    if facts.timer.state == State::Firing && run_at <= now {
        let sentence = format!("Its lease lapsed {} ago: the backlog takes it over.", length(now.since(run_at)));
        return Check::new(code, CheckStatus::Blocking, sentence)
            .since(run_at)
            .with("lapses", facts.timer.lapses)
            .fix(FixAction::Wait, "A node takes it over within seconds, oldest first, at the drain rate.");
    }
    if facts.pause.is_some() {
        return Check::pass(code, "The backlog leaves out what is paused.");
    }
    if !facts.is_ready() {
        return Check::pass(code, "It is not the backlog's.");
    }
    let late = now.since(run_at);
    if late < IN_HAND {
        let backlog_at = run_at.saturating_add(IN_HAND);
        let sentence = "It is about to be decided; if no node does, the backlog takes it within seconds.";
        return Check::new(code, CheckStatus::Unknown, sentence).since(run_at).until(Some(backlog_at));
    }
    let sentence = format!("It should have run {} ago: it waits for the backlog, oldest first.", length(late));
    Check::new(code, CheckStatus::Blocking, sentence).since(run_at).with("late_ms", late.as_millis()).fix(
        FixAction::Wait,
        "The backlog works off what is overdue at the drain rate; look at the log if it stands still.",
    )
}

fn broker_away(facts: &Facts<'_>) -> Check {
    match facts.broker {
        Broker::None => Check::pass(ReasonCode::BrokerAway, "There is no broker: nodes keep the time by themselves."),
        Broker::Up => Check::pass(ReasonCode::BrokerAway, "The broker is there."),
        Broker::Away { for_at_least } => {
            let sentence = format!(
                "The broker has been away for {}: nodes keep the time by themselves, and a timer may fire seconds late.",
                length(for_at_least)
            );
            Check::blocking_if(facts.is_ready(), ReasonCode::BrokerAway, sentence)
                .since(facts.now.saturating_sub(for_at_least))
                .fix(FixAction::Operator, "See to the broker; timers fire meanwhile.")
        }
    }
}

fn plugin_unavailable(facts: &Facts<'_>) -> Check {
    let code = ReasonCode::PluginUnavailable;
    let blocked = |sentence: String| {
        Check::new(code, CheckStatus::Blocking, sentence)
            .fix(FixAction::Operator, "See this node's log for why it cannot be loaded, or activate another revision.")
    };
    match facts.plugin {
        Plugin::Ready => Check::pass(code, "Its plugin is loaded on this node."),
        Plugin::Older { serves, wanted } => {
            let sentence = format!("Revision {wanted} cannot be loaded on this node; revision {serves} serves on.");
            Check::pass(code, sentence).with("serves", serves).with("wanted", wanted)
        }
        Plugin::NotLoaded => blocked(format!("The type {} cannot be loaded on this node.", facts.type_name)),
        Plugin::NoRevision(number) => {
            blocked(format!("It is pinned to revision {number}, which is not there.")).with("revision", number)
        }
    }
}

fn settled(facts: &Facts<'_>) -> Check {
    let timer = facts.timer;
    let outcome: Value = timer.outcome.as_deref().and_then(|o| serde_json::from_str(o).ok()).unwrap_or(Value::Null);
    let actor = facts.last_event.as_ref().map(|e| e.actor.clone()).filter(|_| timer.state.is_final());
    let sentence = match timer.state {
        State::Closed => "It fired, and its plugin closed it.".to_owned(),
        State::Skipped => {
            let reason = outcome["reason"].as_str().unwrap_or("there was nothing to do");
            format!("It fired, and its plugin skipped it: {reason}")
        }
        State::Resolved => "The business resolved it before it fired: it will not close.".to_owned(),
        State::Cancelled => "It was withdrawn: no plugin runs.".to_owned(),
        _ => {
            let message = outcome["failure"]["message"].as_str().unwrap_or("its tries are used up");
            format!("It failed after attempt {}, and is not tried again by itself: {message}", timer.attempt)
        }
    };
    let failure = |name: &str| outcome["failure"][name].clone();
    let mut check = Check::blocking_if(timer.state == State::Failed, ReasonCode::Settled, sentence)
        .with("actor", actor.map_or(Value::Null, |a| json!(a)))
        .with("error_class", failure("class"))
        .with("error_code", failure("code"))
        .with("host", failure("host"));
    check.since = timer.settled_at;
    if timer.state == State::Failed {
        return check.fix(FixAction::RetryTimer, "Retry it once its cause is mended; or resolve or cancel it.");
    }
    check
}
