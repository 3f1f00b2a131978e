//! One call of one export, in a store of its own: what it may do, what it cost, and how its end is read.

use std::sync::Arc;

use wasmtime::{Engine, Store, Trap, UpdateDeadline};
use wasmtime_wasi::I32Exit;

use super::{
    Access, Cost, KeeperError, LogLine, Rights, Run, Standing, http,
    limits::{Budget, DENIALS, Limiter, Limits, MESSAGE_BYTES, Stop},
    log::LogBuffer,
    meter::{Meter, Metered},
    text::cut,
    wasi::Wasi,
};
use crate::{
    breaker::Gate,
    config::Secret,
    domain::{
        decision::{CounterSpec, Failure, FailureClass, MAX_COUNTERS},
        id::Name,
        plugin::{Export, Grant, Right},
    },
};

/// What a store carries. Host functions see nothing else.
pub struct CallState {
    pub limits: Arc<Limits>,
    pub limiter: Limiter,
    pub log: LogBuffer,
    pub meter: Arc<Meter>,
    pub export: Export,
    /// Without one, every call with effects is denied.
    pub session: Option<Session>,
    /// What stands before every call of a downstream; without one, none is made.
    pub gate: Option<Gate>,
    /// For components that import it.
    wasi: Option<Wasi>,
    counters: Vec<CounterSpec>,
    denied: Vec<String>,
    /// What it asked for first of that which was taken from its type.
    revoked: Option<Grant>,
    host_calls: u32,
    http_calls: u32,
}

impl CallState {
    /// Whether one more host call may be made.
    pub fn count_host_call(&mut self) -> bool {
        self.host_calls = self.host_calls.saturating_add(1);
        self.host_calls <= self.limits.host_calls
    }

    /// Only linked for components whose calls have it.
    pub fn wasi_mut(&mut self) -> &mut Wasi {
        self.wasi.as_mut().unwrap_or_else(|| unreachable!("a call of a component with WASI has it"))
    }

    /// Counts, also if the call fails.
    pub fn count(&mut self, name: &str, value: u64) {
        if self.counters.len() < MAX_COUNTERS
            && let Ok(name) = name.parse()
        {
            self.counters.push(CounterSpec { name, value });
        }
    }

    /// The same for one that asks for a request.
    pub fn count_http_call(&mut self) -> bool {
        self.http_calls = self.http_calls.saturating_add(1);
        self.count_host_call()
    }

    /// Keeps that something was refused to the export that runs, which is not granted or not any more; says what.
    pub fn refuse(&mut self, what: &str, standing: Standing) -> String {
        let how = match standing {
            Standing::Revoked(grant) => {
                self.revoked.get_or_insert(grant);
                "was revoked for"
            }
            Standing::Granted | Standing::NotGranted => "is not granted to",
        };
        let why = format!("{what} {how} {}", self.export.as_str());
        self.deny(why.clone());
        why
    }

    /// Keeps what was refused, for the caller to see.
    pub fn deny(&mut self, why: String) {
        if self.denied.len() < DENIALS {
            self.denied.push(why);
        }
    }
}

/// What one call may do, and in whose name.
pub struct Session {
    pub gateway: http::Gateway,
    pub access: Access,
    pub rights: Rights,
    /// Where its names are looked up.
    pub namespace: String,
    pub timer_type: String,
    pub idempotency_key: String,
}

impl Session {
    /// A secret that is granted to the export that runs, as it is now. What is denied is kept.
    pub async fn secret(&self, state: &mut CallState, name: &str) -> Result<Secret, NoSecret> {
        let what = format!("secret {:?}", cut(name, 100));
        let Ok(name) = name.parse::<Name>() else {
            return Err(NoSecret::Denied(state.refuse(&what, Standing::NotGranted)));
        };
        let right = Right::Secret { name };
        let standing = self.rights.standing(state.export, |granted| *granted == right);
        let (Standing::Granted, Right::Secret { name }) = (&standing, right) else {
            return Err(NoSecret::Denied(state.refuse(&what, standing)));
        };
        match self.access.keeper.secret(&self.namespace, &name).await {
            Ok(Some(secret)) => Ok(secret),
            Ok(None) => {
                let why = format!("there is no secret {name}");
                state.deny(why.clone());
                Err(NoSecret::Denied(why))
            }
            Err(KeeperError(why)) => Err(NoSecret::Unavailable(why)),
        }
    }
}

/// Why a secret is not put in.
pub enum NoSecret {
    Denied(String),
    Unavailable(String),
}

/// A call about to be made.
pub struct Call {
    pub store: Store<CallState>,
}

pub struct CallParams {
    pub limits: Arc<Limits>,
    pub budget: Arc<Budget>,
    pub export: Export,
    pub session: Option<Session>,
    pub gate: Option<Gate>,
    pub log: LogBuffer,
    pub wasi: Option<Wasi>,
}

/// What a call leaves behind beside its result.
#[derive(Default)]
pub struct Trail {
    pub logs: Vec<LogLine>,
    pub denied: Vec<String>,
    /// What it asked for of that which was taken from its type, as a sentence that says what to do.
    pub revoked: Option<String>,
    pub counters: Vec<CounterSpec>,
    pub cost: Cost,
    pub gate: Option<Gate>,
}

impl Trail {
    pub fn run<T>(self, result: Result<T, Failure>) -> Run<T> {
        let Self { logs, denied, revoked, counters, cost, gate } = self;
        let host = gate.as_ref().and_then(Gate::last_host).map(str::to_owned);
        let mut run = Run { result, logs, denied, counters, cost, deferred: None };
        // A run that coped without the downstream, or without its right to it, or was told what is so, stands. Any
        // other failure may come of it, whatever the plugin makes of it.
        let may_come_of_it = run.result.as_ref().is_err_and(|failure| failure.class != FailureClass::Conflict);
        if may_come_of_it && let Some(message) = revoked {
            run.result = Err(Failure::new(FailureClass::Permanent, "grant_revoked", message));
        } else if may_come_of_it && let Some(deferred) = gate.and_then(Gate::deferred) {
            let message = cut(&deferred.refused.to_string(), MESSAGE_BYTES).into_owned();
            run.result = Err(Failure::new(FailureClass::Downstream, "breaker_open", message));
            run.deferred = Some(deferred);
        }
        if let Err(failure) = &mut run.result {
            failure.host = host;
        }
        run
    }
}

/// Whether the call has the thread to itself, or shares a runtime's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Blocking,
    Yielding,
}

impl Call {
    pub fn new(engine: &Engine, mode: Mode, params: CallParams) -> Self {
        let CallParams { limits, budget, export, session, gate, log, wasi } = params;
        let wall = if mode == Mode::Blocking { limits.wall } else { limits.effect_wall };
        let meter = Meter::start(limits.cpu, wall);
        let state = CallState {
            limiter: Limiter::new(limits.memory_bytes, budget),
            log,
            meter: Arc::clone(&meter),
            export,
            session,
            gate,
            wasi,
            counters: Vec::new(),
            denied: Vec::new(),
            revoked: None,
            host_calls: 0,
            http_calls: 0,
            limits,
        };
        let crossing = state.limits.crossing_bytes();
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(crossing);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(move |_| {
            meter.check()?;
            Ok(if mode == Mode::Blocking { UpdateDeadline::Continue(1) } else { UpdateDeadline::Yield(1) })
        });
        Self { store }
    }

    /// Runs it on this thread.
    pub fn run<T>(
        mut self,
        body: impl FnOnce(&mut Store<CallState>) -> wasmtime::Result<T>,
    ) -> (Result<T, Failure>, Trail) {
        let result = body(&mut self.store);
        let cpu = self.store.data().meter.cpu();
        let failed = result.map_err(|error| read_end(&error, self.store.data()));
        (failed, self.trail(cpu))
    }

    /// Runs it on a runtime, stopped where it stands when its time on the wall is over.
    pub async fn run_async<T, B>(mut self, body: B) -> (Result<T, Failure>, Trail)
    where
        B: AsyncFnOnce(&mut Store<CallState>) -> wasmtime::Result<T>,
    {
        let meter = Arc::clone(&self.store.data().meter);
        let future = Box::pin(body(&mut self.store));
        let metered = Metered { meter: Arc::clone(&meter), future };
        let result = tokio::time::timeout(meter.wall_left(), metered).await.unwrap_or_else(|_| Err(Stop::Wall.into()));
        let failed = result.map_err(|error| read_end(&error, self.store.data()));
        (failed, self.trail(meter.spent()))
    }

    fn trail(self, cpu: std::time::Duration) -> Trail {
        let mut state = self.store.into_data();
        // What it printed last is whole only then.
        drop(state.wasi.take());
        let cost = Cost {
            cpu_us: u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX),
            memory_bytes: state.limiter.peak_bytes(),
            host_calls: state.host_calls,
            http_calls: state.http_calls,
        };
        let timer_type = state.session.map(|session| session.timer_type).unwrap_or_default();
        let revoked = state.revoked.map(|grant| explain_revoked(&grant, &timer_type));
        let (logs, gate) = (state.log.take_lines(), state.gate);
        Trail { logs, denied: state.denied, revoked, counters: state.counters, cost, gate }
    }
}

fn explain_revoked(grant: &Grant, timer_type: &str) -> String {
    let again = match grant.export {
        Export::Compensate => "redrive this",
        Export::OnExpire | Export::OnRemind => "retry the timer",
    };
    format!(
        "the right {grant} was revoked for the type {timer_type}; an operator gives it back with \
         `lapse type restore {timer_type} {grant}`: then {again}"
    )
}

/// What an error out of the sandbox means. What would happen again on the same input is permanent.
fn read_end(error: &wasmtime::Error, state: &CallState) -> Failure {
    let permanent = |code, message: String| Failure::new(FailureClass::Permanent, code, message);
    if let Some(stop) = error.downcast_ref::<Stop>() {
        let (class, code) = match stop {
            Stop::Cpu | Stop::Wall => (FailureClass::Transient, "timeout"),
            Stop::Memory | Stop::Table => (FailureClass::Permanent, "out_of_memory"),
            Stop::Crowded => (FailureClass::Transient, "sandbox"),
        };
        return Failure::new(class, code, stop.to_string());
    }
    if let Some(I32Exit(status)) = error.downcast_ref() {
        return permanent(
            "exit",
            format!("the plugin ended itself, with the status {status}, in the place of an answer"),
        );
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => permanent("stack_overflow", "the call's stack is used up".to_owned()),
        // What a panic or an abort becomes, in every language.
        Some(Trap::UnreachableCodeReached) => {
            let said = state.log.last_error().unwrap_or_else(|| "it said nothing".to_owned());
            permanent("panic", cut(&format!("the plugin panicked: {said}"), MESSAGE_BYTES).into_owned())
        }
        Some(trap) => permanent("trap", format!("the plugin broke off: {trap}")),
        None => read_refusal(error, state),
    }
}

fn read_refusal(error: &wasmtime::Error, state: &CallState) -> Failure {
    // The machine's trouble and not the plugin's: no memory to map, no slot to run in.
    let machine = error.chain().any(|e| e.is::<std::io::Error>() || e.is::<wasmtime::PoolConcurrencyLimitError>());
    if machine {
        let message = cut(&format!("the sandbox could not be set up: {error:#}"), MESSAGE_BYTES).into_owned();
        return Failure::new(FailureClass::Transient, "sandbox", message);
    }
    let text = format!("{error:#}");
    // The error's type is private to wasmtime; its text is held by a test.
    if text.contains("fuel allocated for hostcalls") {
        let limit = state.limits.crossing_bytes();
        let message = format!("the plugin handed over more than {limit} bytes at once");
        return Failure::new(FailureClass::Permanent, "output_too_large", message);
    }
    let message = cut(&format!("the plugin broke the interface: {text}"), MESSAGE_BYTES).into_owned();
    Failure::new(FailureClass::Permanent, "contract", message)
}
