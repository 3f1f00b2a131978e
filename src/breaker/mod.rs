//! Breakers: a downstream that is away is not called, and what is to be done there waits without burning a try.
//!
//! ```text
//!            `failures` in a row within `window`                     `until` has come
//!  closed ───────────────────────────────────────► open ───────────────────────────────► half-open
//!    ▲                                              ▲  ▲ refused at once                    │ `probes` at a time
//!    │ `ramp` is over                               │  └───────── one fails, twice as long ──┤
//!    └────────── ramping: `drain_rate` a second, ───┘◄───────────────── `probes` succeed ────┘
//!                doubled every five seconds           (to ramping)
//! ```
//!
//! A breaker stands for one downstream of one namespace: `HOST:PORT` of `http`, `sql:NAME` of a data source. No
//! connection, no answer in time and a status of 500 or above are failures; an answer that says no is not. What is
//! refused gets a turn of its own, one after the other at the drain rate from the moment on at which the downstream is
//! tried again: nothing stampedes when it is back, and what waits costs the store no more than that rate while it is not.
//!
//! Breakers are a node's own and are held in memory: each node finds out for itself, within a few calls.

mod state;

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use metrics::{counter, gauge};
use parking_lot::Mutex;
use serde::Serialize;

use self::state::{Breaker, Change, Epoch};
use crate::{
    clock::{SharedClock, SystemClock},
    config,
    domain::time::Timestamp,
};

/// Downstreams that have failed of late and are remembered; one more is not watched.
const MAX_WATCHED: usize = 10_000;
/// Downstreams that one run is remembered to have been let through to.
const MAX_OF_A_RUN: usize = 64;
/// A call that was given up on without an answer counts as failed if it ran at least so long.
const LONG: Duration = Duration::from_secs(1);

/// What calls go to: a host or a data source, as one namespace uses it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Downstream {
    pub namespace: String,
    /// `HOST:PORT`, or `sql:NAME`.
    pub host: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Closed,
    /// It is back, and let through to at a bounded rate that rises.
    Ramping,
    /// A few calls try whether it is back.
    HalfOpen,
    Open,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Ramping => "ramping",
            Self::HalfOpen => "half_open",
            Self::Open => "open",
        }
    }

    /// The gauge's value.
    fn level(self) -> f64 {
        match self {
            Self::Closed => 0.0,
            Self::Ramping => 1.0,
            Self::HalfOpen => 2.0,
            Self::Open => 3.0,
        }
    }
}

/// One breaker at this moment. One that is not shown is closed, and its downstream has not failed of late.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub downstream: Downstream,
    pub state: State,
    /// Failures in a row.
    pub failures: u32,
    /// What the last failure was.
    pub last_error: String,
    /// When it first opened, unless it has been closed since.
    pub opened_at: Option<Timestamp>,
    /// When the downstream is tried again, while it is open.
    pub until: Option<Timestamp>,
    /// The turn that the next refused run will get: behind it stands everything that waits.
    pub next_turn_at: Option<Timestamp>,
}

/// A call that is not to be made now.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{host} is not called now: {why}")]
pub struct Refused {
    pub host: String,
    why: String,
}

/// A run that was refused, and the turn that it has been given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deferred {
    pub refused: Refused,
    pub until: Timestamp,
}

/// All breakers of a node. Cheap to clone.
#[derive(Clone)]
pub struct Breakers {
    inner: Arc<Inner>,
}

struct Inner {
    config: config::Breaker,
    clock: SharedClock,
    breakers: Mutex<HashMap<Downstream, Breaker>>,
}

impl Breakers {
    pub fn new(config: config::Breaker, clock: SharedClock) -> Self {
        Self { inner: Arc::new(Inner { config, clock, breakers: Mutex::default() }) }
    }

    /// None ever opens: for a command that runs a plugin once.
    pub fn off() -> Self {
        let config = config::Breaker { failures: 0, ..config::Config::default().breaker };
        Self::new(config, Arc::new(SystemClock))
    }

    /// What one run of a plugin passes through.
    pub fn gate(&self, namespace: &str) -> Gate {
        Gate {
            breakers: self.clone(),
            namespace: namespace.to_owned(),
            admitted: Vec::new(),
            refused: None,
            last: None,
        }
    }

    /// Every breaker that is not closed, or whose downstream has failed of late; by namespace and host.
    pub fn snapshot(&self) -> Vec<Snapshot> {
        let now = self.inner.clock.now();
        let mut breakers = self.inner.breakers.lock();
        let mut changes = Vec::new();
        breakers.retain(|downstream, breaker| {
            if let Some(change) = breaker.tidy(now, &self.inner.config) {
                changes.push((downstream.clone(), change));
            }
            !breaker.is_forgotten()
        });
        let mut all: Vec<_> = breakers.iter().map(|(d, b)| b.show(d, now)).collect();
        drop(breakers);
        for (downstream, change) in changes {
            tell(&downstream, Some(change));
        }
        all.sort_by(|a, b| a.downstream.cmp(&b.downstream));
        all
    }

    /// `again`: the same run was let through to it before, and need not queue a second time.
    fn admit(&self, downstream: &Downstream, again: bool) -> Result<Permit, Refused> {
        let config = &self.inner.config;
        let mut breakers = self.inner.breakers.lock();
        let (epoch, change) = match breakers.get_mut(downstream) {
            Some(breaker) => breaker.admit(self.inner.clock.now(), config, again).map_err(|why| {
                counter!("lapse_breaker_refused_total", &labels(downstream)).increment(1);
                Refused { host: downstream.host.clone(), why }
            })?,
            None => (Epoch::default(), None),
        };
        if breakers.get(downstream).is_some_and(Breaker::is_forgotten) {
            breakers.remove(downstream);
        }
        drop(breakers);
        tell(downstream, change);
        Ok(Permit {
            breakers: Arc::downgrade(&self.inner),
            downstream: downstream.clone(),
            epoch,
            since: Instant::now(),
            reported: false,
        })
    }

    /// A turn for a run that was refused.
    fn turn(&self, downstream: &Downstream) -> Timestamp {
        let now = self.inner.clock.now();
        match self.inner.breakers.lock().get_mut(downstream) {
            Some(breaker) => breaker.turn(now, &self.inner.config),
            None => now,
        }
    }
}

impl Inner {
    fn report(&self, downstream: &Downstream, epoch: Epoch, answer: Answer) {
        let now = self.clock.now();
        let mut breakers = self.breakers.lock();
        let is_first = !breakers.contains_key(downstream);
        let change = match &answer {
            Answer::Failed(_) if self.config.failures == 0 || !epoch.is_first() && is_first => None,
            Answer::Failed(why) => {
                if is_first && breakers.len() >= MAX_WATCHED {
                    return;
                }
                breakers.entry(downstream.clone()).or_default().failed(now, &self.config, epoch, why)
            }
            Answer::Succeeded => breakers.get_mut(downstream).and_then(|b| b.succeeded(now, &self.config, epoch)),
            Answer::Unknown => {
                if let Some(breaker) = breakers.get_mut(downstream) {
                    breaker.given_up(epoch);
                }
                None
            }
        };
        if breakers.get(downstream).is_some_and(Breaker::is_forgotten) {
            breakers.remove(downstream);
        }
        drop(breakers);
        tell(downstream, change);
    }
}

fn labels(downstream: &Downstream) -> [(&'static str, String); 2] {
    [("namespace", downstream.namespace.clone()), ("host", downstream.host.clone())]
}

fn tell(downstream: &Downstream, change: Option<Change>) {
    let Some(change) = change else { return };
    let labels = labels(downstream);
    gauge!("lapse_breaker_state", &labels).set(change.state.level());
    let Downstream { namespace, host } = downstream;
    match change.state {
        State::Open => {
            counter!("lapse_breaker_opened_total", &labels).increment(1);
            tracing::warn!(
                lapse.namespace = namespace,
                breaker.host = host,
                breaker.error = change.last_error,
                breaker.until = change.until.map(tracing::field::display),
                alert = true,
                "a downstream fails: it is not called for a while, and what is to be done there waits"
            );
        }
        State::Ramping => tracing::info!(
            lapse.namespace = namespace,
            breaker.host = host,
            "a downstream is back: what has waited for it is let through at the drain rate"
        ),
        State::HalfOpen | State::Closed => tracing::debug!(
            lapse.namespace = namespace,
            breaker.host = host,
            breaker.state = change.state.as_str(),
            "a breaker has changed"
        ),
    }
}

enum Answer {
    Succeeded,
    Failed(String),
    /// The call ended without telling anything of the downstream.
    Unknown,
}

/// A call that may be made. Dropped without a report it says nothing of the downstream, unless it had run for long.
pub struct Permit {
    breakers: Weak<Inner>,
    downstream: Downstream,
    epoch: Epoch,
    since: Instant,
    reported: bool,
}

impl Permit {
    /// It answered, whatever it said.
    pub fn succeeded(self) {
        self.report(Answer::Succeeded);
    }

    /// It could not be reached, did not answer in time, or said that it cannot work.
    pub fn failed(self, why: impl Into<String>) {
        self.report(Answer::Failed(why.into()));
    }

    /// The caller did not wait for the answer. A failure only if it waited for long enough to tell.
    pub fn gave_up(self) {
        drop(self);
    }

    fn report(mut self, answer: Answer) {
        self.tell(answer);
    }

    fn tell(&mut self, answer: Answer) {
        self.reported = true;
        if let Some(breakers) = self.breakers.upgrade() {
            breakers.report(&self.downstream, self.epoch, answer);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.reported {
            let long = self.since.elapsed() >= LONG;
            self.tell(if long { Answer::Failed("no answer in time".to_owned()) } else { Answer::Unknown });
        }
    }
}

/// One run's way through the breakers: it is let through to a downstream as a whole, or gets one turn.
pub struct Gate {
    breakers: Breakers,
    namespace: String,
    admitted: Vec<String>,
    refused: Option<Refused>,
    last: Option<String>,
}

impl Gate {
    /// Before each call. `host` is `HOST:PORT`, or `sql:NAME`.
    pub fn admit(&mut self, host: &str) -> Result<Permit, Refused> {
        let downstream = Downstream { namespace: self.namespace.clone(), host: host.to_owned() };
        host.clone_into(self.last.get_or_insert_default());
        let again = self.admitted.iter().any(|known| known == host);
        match self.breakers.admit(&downstream, again) {
            Ok(permit) => {
                if !again && self.admitted.len() < MAX_OF_A_RUN {
                    self.admitted.push(host.to_owned());
                }
                Ok(permit)
            }
            Err(refused) => {
                self.refused.get_or_insert_with(|| refused.clone());
                Err(refused)
            }
        }
    }

    /// The downstream that the run turned to last, let through or not.
    pub fn last_host(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// After a run that failed: if it was refused, its turn.
    pub fn deferred(self) -> Option<Deferred> {
        let refused = self.refused?;
        let downstream = Downstream { namespace: self.namespace, host: refused.host.clone() };
        Some(Deferred { until: self.breakers.turn(&downstream), refused })
    }
}
