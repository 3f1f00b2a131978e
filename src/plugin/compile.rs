//! Compilation, off every thread that dispatches, and within bounds.
//!
//! Cranelift cannot be stopped once it runs. So what it is given is bounded beforehand, a compilation that takes too
//! long is given up on (and runs to its end on its own low-priority thread), and only so many threads exist.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use wasmtime::{Engine, component::Component};

use super::{
    Refusal,
    cache::{Cache, Found},
    limits::COMPILATIONS,
};
use crate::domain::id::Digest;

pub struct Compiler {
    engine: Engine,
    cache: Option<Arc<Cache>>,
    permits: Arc<Semaphore>,
    time: Duration,
}

impl Compiler {
    pub fn new(engine: Engine, cache: Option<Cache>, time: Duration) -> Self {
        Self { engine, cache: cache.map(Arc::new), permits: Arc::new(Semaphore::new(COMPILATIONS)), time }
    }

    /// From the cache, or compiled and put there.
    pub async fn compile(&self, digest: Digest, bytes: Bytes) -> Result<Component, Refusal> {
        if let Some(component) = self.cached(digest).await {
            return Ok(component);
        }
        let deadline = tokio::time::Instant::now() + self.time;
        let permit = tokio::time::timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(Refusal::OverLimit("other compilations are under way; try again later".to_owned()));
        };
        let finished = self.start(digest, bytes, permit)?;
        match tokio::time::timeout_at(deadline, finished).await {
            Ok(Ok(result)) => result.map_err(|e| Refusal::Invalid(format!("the component cannot be compiled: {e:#}"))),
            Ok(Err(_)) => Err(Refusal::Internal("the compiler broke off".to_owned())),
            Err(_) => Err(Refusal::OverLimit(format!("compiling the component takes longer than {:?}", self.time))),
        }
    }

    async fn cached(&self, digest: Digest) -> Option<Component> {
        let (cache, engine) = (Arc::clone(self.cache.as_ref()?), self.engine.clone());
        let found = tokio::task::spawn_blocking(move || cache.read(&engine, digest)).await.unwrap_or(Found::Miss);
        let (result, component) = match found {
            Found::Hit(component) => ("hit", Some(component)),
            Found::Miss => ("miss", None),
            Found::Tampered => {
                tracing::warn!(plugin.digest = %digest, "an entry of the compile cache is not what was written; it is compiled again");
                ("tampered", None)
            }
        };
        metrics::counter!("lapse_plugin_cache_total", "result" => result).increment(1);
        component
    }

    /// The permit is given back when the thread has really ended.
    fn start(
        &self,
        digest: Digest,
        bytes: Bytes,
        permit: OwnedSemaphorePermit,
    ) -> Result<oneshot::Receiver<wasmtime::Result<Component>>, Refusal> {
        let (done, finished) = oneshot::channel();
        let (engine, cache) = (self.engine.clone(), self.cache.clone());
        let work = move || {
            let _permit = permit;
            yield_to_others();
            let began = Instant::now();
            let compiled = Component::from_binary(&engine, &bytes);
            metrics::histogram!("lapse_plugin_compile_seconds").record(began.elapsed());
            if let (Ok(component), Some(cache)) = (&compiled, cache)
                && let Err(error) =
                    component.serialize().map_err(std::io::Error::other).and_then(|code| cache.write(digest, &code))
            {
                tracing::warn!(plugin.digest = %digest, %error, "compiled code could not be put into the cache");
            }
            let _ = done.send(compiled);
        };
        thread::Builder::new()
            .name("lapse-compile".to_owned())
            // Cranelift recurses over what it compiles.
            .stack_size(8 * 1024 * 1024)
            .spawn(work)
            .map_err(|e| Refusal::Internal(format!("no thread to compile on: {e}")))?;
        Ok(finished)
    }
}

/// Lowers the calling thread's priority.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // SAFETY: on Linux this changes the calling thread alone, and has no memory to get wrong. If it fails, the
    // compilation is only less polite.
    unsafe {
        libc::setpriority(libc::PRIO_PROCESS, 0, 10);
    }
}
