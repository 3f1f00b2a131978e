//! The host: takes components in, and runs them.

use std::{
    collections::{HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Weak},
    thread,
    time::Instant,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    runtime::Runtime,
    sync::{Semaphore, SemaphorePermit},
};
use wasmtime::Engine;

use super::{
    Host, Inspection, Keeper, KeeperError, Plugin, Refusal, Rights, Run,
    abi::v1::{Linked, Linkers},
    cache::Cache,
    call::{Call, CallParams, Mode, Session, Trail},
    compile::Compiler,
    engine,
    http::Gateway,
    inspect,
    limits::{Budget, EFFECT_MEMORIES, EFFECT_WAIT, Limits, MEMORIES},
    log::LogBuffer,
    wasi::{Seed, Wasi, WasiParams},
};
use crate::{
    breaker::Breakers,
    config,
    domain::{
        decision::{CompensationTask, Decision, Expiry, Failure, FailureClass},
        id::{Digest, Name},
        plugin::Export,
        time::Timestamp,
    },
    sql::{self, Databases},
};

/// Says why a JSON Schema cannot be used.
pub type SchemaCheck = fn(&Value) -> Result<(), String>;

/// What the host needs beside its settings.
#[derive(Clone)]
pub struct HostParams {
    /// Where compiled code and its key are kept; without one, each start compiles.
    pub cache: Option<PathBuf>,
    pub check_schema: SchemaCheck,
    /// What stands before every call of a downstream.
    pub breakers: Breakers,
}

/// What calls are given by name, and what they reach with it.
#[derive(Clone)]
pub struct Access {
    pub keeper: Arc<dyn Keeper>,
    pub databases: Databases,
}

impl Access {
    /// To nothing: where plugins are only looked at.
    pub fn none() -> Self {
        let settings = sql::Settings { config: config::Config::default().sql, own_folder: PathBuf::from("/") };
        Self { keeper: Arc::new(Nothing), databases: Databases::new(settings) }
    }
}

/// Keeps nothing.
struct Nothing;

#[async_trait]
impl Keeper for Nothing {
    async fn secret(&self, _: &str, _: &Name) -> Result<Option<config::Secret>, KeeperError> {
        Ok(None)
    }

    async fn source(&self, _: &str, _: &Name) -> Result<Option<sql::Source>, KeeperError> {
        Ok(None)
    }
}

/// Components kept ready though nothing uses them at the moment: an upload is loaded soon after.
const RECENT: usize = 8;
/// The most threads for calls with effects, which wait for others' answers most of the time. Fewer on fewer cores.
const EFFECT_THREADS: usize = 8;

/// Runs components with wasmtime.
pub struct WasmHost {
    limits: Arc<Limits>,
    compiler: Compiler,
    check_schema: SchemaCheck,
    shared: Arc<Shared>,
    plain: Linkers,
    with_wasi: Linkers,
    ready: Mutex<Ready>,
}

/// What every plugin holds on to.
struct Shared {
    engine: Engine,
    limits: Arc<Limits>,
    budget: Arc<Budget>,
    /// Places for calls with effects, a memory each.
    places: Semaphore,
    gateway: Gateway,
    breakers: Breakers,
    access: Access,
    /// Calls with effects have a runtime of their own, so that no guest holds up the rest of the server.
    runtime: Option<Runtime>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // A runtime may not be waited for where it can be dropped from, which is another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Each digest is compiled once, however many ask at a time.
#[derive(Default)]
struct Ready {
    by_digest: HashMap<Digest, Arc<tokio::sync::Mutex<Weak<WasmPlugin>>>>,
    recent: VecDeque<Arc<WasmPlugin>>,
}

/// The machine does not give what a sandbox needs.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the WebAssembly engine cannot be set up: {0:#}")]
    Engine(wasmtime::Error),
    #[error("the compile cache at {path} cannot be opened: {source}")]
    Cache { path: PathBuf, source: std::io::Error },
    #[error("no runtime for plugins' calls: {0}")]
    Runtime(std::io::Error),
    #[error("no HTTP client for plugins: {0}")]
    Http(reqwest::Error),
}

impl WasmHost {
    /// With access to no secret and no data source.
    pub fn new(config: &config::Plugin, params: HostParams) -> Result<Arc<Self>, StartError> {
        Self::with_access(config, params, Access::none())
    }

    pub fn with_access(config: &config::Plugin, params: HostParams, access: Access) -> Result<Arc<Self>, StartError> {
        let limits = Arc::new(Limits::new(config));
        let engine = engine::new(&limits).map_err(StartError::Engine)?;
        let cache = match params.cache {
            Some(path) => Some(Cache::open(&path, &engine).map_err(|source| StartError::Cache { path, source })?),
            None => None,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(thread::available_parallelism().map_or(1, usize::from).clamp(2, EFFECT_THREADS))
            .thread_name("lapse-effects")
            .enable_all()
            .build()
            .map_err(StartError::Runtime)?;
        let shared = Shared {
            engine: engine.clone(),
            limits: Arc::clone(&limits),
            budget: Arc::new(Budget::of_machine()),
            places: Semaphore::new(EFFECT_MEMORIES),
            gateway: Gateway::new().map_err(StartError::Http)?,
            breakers: params.breakers,
            access,
            runtime: Some(runtime),
        };
        Ok(Arc::new(Self {
            compiler: Compiler::new(engine.clone(), cache, limits.compile_time),
            check_schema: params.check_schema,
            shared: Arc::new(shared),
            plain: Linkers::plain(&engine).map_err(StartError::Engine)?,
            with_wasi: Linkers::with_wasi(&engine).map_err(StartError::Engine)?,
            ready: Mutex::default(),
            limits,
        }))
    }

    /// A scanned component, compiled and linked.
    async fn prepare(&self, digest: Digest, bytes: Bytes) -> Result<Arc<WasmPlugin>, Refusal> {
        let slot = {
            let mut ready = self.ready.lock();
            ready.by_digest.retain(|_, slot| slot.try_lock().map_or(true, |weak| weak.strong_count() > 0));
            Arc::clone(ready.by_digest.entry(digest).or_default())
        };
        let mut slot = slot.lock().await;
        if let Some(plugin) = slot.upgrade() {
            return Ok(plugin);
        }
        let component = self.compiler.compile(digest, bytes).await?;
        let linked = Linked::new(&component, &self.plain, &self.with_wasi).map_err(|e| {
            Refusal::Invalid(format!("the component does not fit the world {}: {e:#}", crate::domain::plugin::ABI))
        })?;
        let memories = component.resources_required().map_or(u32::MAX, |r| r.num_memories);
        let memories = memories.clamp(1, u32::try_from(MEMORIES).unwrap_or(u32::MAX));
        let plugin = Arc::new(WasmPlugin { digest, linked, memories, shared: Arc::clone(&self.shared) });
        *slot = Arc::downgrade(&plugin);
        let mut ready = self.ready.lock();
        ready.recent.push_back(Arc::clone(&plugin));
        if ready.recent.len() > RECENT {
            ready.recent.pop_front();
        }
        Ok(plugin)
    }
}

#[async_trait]
impl Host for WasmHost {
    async fn inspect(&self, component: Bytes) -> Result<Inspection, Refusal> {
        inspect::check_size(&component, &self.limits)?;
        let (bytes, limits) = (component.clone(), Arc::clone(&self.limits));
        let (digest, imports) = blocking(move || Ok((Digest::of(&bytes), inspect::scan(&bytes, &limits)?))).await?;
        let size = u64::try_from(component.len()).unwrap_or(u64::MAX);
        let began = Instant::now();
        let plugin = self.prepare(digest, component).await?;
        let compile_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let check_schema = self.check_schema;
        let manifest = blocking(move || inspect::manifest(&plugin.describe()?, check_schema)).await?;
        Ok(Inspection { digest, size, manifest, imports, compile_ms })
    }

    async fn load(&self, digest: Digest, component: Bytes) -> Result<Arc<dyn Plugin>, Refusal> {
        inspect::check_size(&component, &self.limits)?;
        let (bytes, limits) = (component.clone(), Arc::clone(&self.limits));
        blocking(move || match Digest::of(&bytes) {
            found if found == digest => inspect::scan(&bytes, &limits).map(drop),
            found => Err(Refusal::Invalid(format!("the component's bytes are those of {found}, not of {digest}"))),
        })
        .await?;
        Ok(Arc::new(Shareable(self.prepare(digest, component).await?)))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Refusal> + Send + 'static) -> Result<T, Refusal> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(Refusal::Internal("the check of a component broke off".to_owned())))
}

/// A compiled component with what its calls need.
struct WasmPlugin {
    digest: Digest,
    linked: Linked,
    /// That each of its calls has.
    memories: u32,
    shared: Arc<Shared>,
}

impl WasmPlugin {
    /// Without a session, a call that can do nothing.
    fn call(&self, told: &Told<'_>, session: Option<Session>) -> Call {
        let mode = if session.is_some() { Mode::Yielding } else { Mode::Blocking };
        let gate = session.is_some().then(|| self.shared.breakers.gate(told.namespace));
        let (limits, budget) = (Arc::clone(&self.shared.limits), Arc::clone(&self.shared.budget));
        let log = LogBuffer::new(limits.log_lines, limits.log_line_bytes);
        let wasi = self.linked.has_wasi().then(|| {
            let holds_thread = mode == Mode::Blocking;
            Wasi::new(&WasiParams { now: told.now, seed: told.seed, log: &log, holds_thread })
        });
        let params = CallParams { limits, budget, export: told.export, session, gate, log, wasi };
        Call::new(&self.shared.engine, mode, params)
    }

    /// The manifest's JSON, asked for as a pure call.
    fn describe(&self) -> Result<String, Refusal> {
        let told = Told {
            export: Export::OnExpire,
            namespace: "",
            timer_type: "",
            now: Timestamp::MIN,
            seed: Seed { idempotency_key: "describe", attempt: 0 },
        };
        let call = self.call(&told, None);
        let (described, _) = call.run(|store| self.linked.describe(store));
        described.map_err(|failure| {
            let why = format!("the component does not describe itself: {}: {}", failure.code, failure.message);
            match failure.code.as_str() {
                "timeout" | "out_of_memory" | "output_too_large" => Refusal::OverLimit(why),
                "sandbox" => Refusal::Internal(why),
                _ => Refusal::Invalid(why),
            }
        })
    }

    /// Waits for a place; the call's own time starts after it.
    async fn place(&self) -> Result<SemaphorePermit<'_>, Failure> {
        let place = tokio::time::timeout(EFFECT_WAIT, self.shared.places.acquire_many(self.memories)).await;
        let message = "too many calls with effects run at once";
        place.ok().and_then(Result::ok).ok_or_else(|| Failure::new(FailureClass::Transient, "sandbox", message))
    }

    fn session(&self, rights: &Rights, told: &Told<'_>) -> Session {
        Session {
            gateway: self.shared.gateway.clone(),
            access: self.shared.access.clone(),
            rights: rights.clone(),
            namespace: told.namespace.to_owned(),
            timer_type: told.timer_type.to_owned(),
            idempotency_key: told.seed.idempotency_key.to_owned(),
        }
    }
}

/// What a call is told that bears on how it is made.
struct Told<'a> {
    export: Export,
    namespace: &'a str,
    timer_type: &'a str,
    now: Timestamp,
    seed: Seed<'a>,
}

impl<'a> Told<'a> {
    fn expiry(expiry: &'a Expiry) -> Self {
        let seed = Seed { idempotency_key: &expiry.idempotency_key, attempt: expiry.attempt };
        let (namespace, timer_type) = (&expiry.namespace, &expiry.timer_type);
        Self { export: Export::OnExpire, namespace, timer_type, now: expiry.fired_at, seed }
    }

    fn compensation(task: &'a CompensationTask) -> Self {
        let seed = Seed { idempotency_key: &task.idempotency_key, attempt: task.attempt };
        let (namespace, timer_type) = (&task.namespace, &task.timer_type);
        Self { export: Export::Compensate, namespace, timer_type, now: task.now, seed }
    }
}

fn flatten<T>((result, trail): (Result<Result<T, Failure>, Failure>, Trail)) -> Run<T> {
    trail.run(result.and_then(|inner| inner))
}

/// [`Plugin`] for a component. Effectful calls are moved to the runtime of their own, and stop if their caller goes.
#[async_trait]
impl Plugin for Shareable {
    fn digest(&self) -> Digest {
        self.0.digest
    }

    fn decide(&self, expiry: &Expiry) -> Run<Decision> {
        let call = self.0.call(&Told::expiry(expiry), None);
        flatten(call.run(|store| self.0.linked.on_expire(store, expiry)))
    }

    async fn decide_with_effects(&self, expiry: &Expiry, rights: &Rights) -> Run<Decision> {
        let session = self.0.session(rights, &Told::expiry(expiry));
        let (plugin, expiry) = (Arc::clone(&self.0), expiry.clone());
        self.spawn(async move {
            let _place = match plugin.place().await {
                Ok(place) => place,
                Err(full) => return Trail::default().run(Err(full)),
            };
            let call = plugin.call(&Told::expiry(&expiry), Some(session));
            flatten(call.run_async(async |store| plugin.linked.on_expire_async(store, &expiry).await).await)
        })
        .await
    }

    async fn compensate(&self, task: &CompensationTask, rights: &Rights) -> Run<Option<String>> {
        let session = self.0.session(rights, &Told::compensation(task));
        let (plugin, task) = (Arc::clone(&self.0), task.clone());
        self.spawn(async move {
            let _place = match plugin.place().await {
                Ok(place) => place,
                Err(full) => return Trail::default().run(Err(full)),
            };
            let call = plugin.call(&Told::compensation(&task), Some(session));
            flatten(call.run_async(async |store| plugin.linked.compensate_async(store, &task).await).await)
        })
        .await
    }
}

/// A handle on a component that tasks can hold on to.
struct Shareable(Arc<WasmPlugin>);

impl Shareable {
    async fn spawn<T: Send + 'static>(&self, run: impl Future<Output = Run<T>> + Send + 'static) -> Run<T> {
        let broken =
            |message: &str| Trail::default().run(Err(Failure::new(FailureClass::Transient, "sandbox", message)));
        let Some(runtime) = &self.0.shared.runtime else { return broken("the plugin host has stopped") };
        let task = runtime.spawn(run);
        let _stop = AbortOnDrop(task.abort_handle());
        task.await.unwrap_or_else(|_| broken("the call broke off within the host"))
    }
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
