//! Binds the world's imports to the capabilities.

use wasmtime::{Engine, Result, StoreContextMut, component::Linker};

use super::{
    super::super::{call::CallState, http as capability, sql as sql_capability, wasi},
    bindings::lapse::plugin::{
        http::{HttpError, Request, Response, SecretHeader},
        log::Level,
        sql::{Outcome, SqlError, Statement},
    },
};

type Transacted = Result<Vec<Outcome>, SqlError>;
type Read = Result<Outcome, SqlError>;

const LOG: &str = "lapse:plugin/log@1.0.0";
const HTTP: &str = "lapse:plugin/http@1.0.0";
const SQL: &str = "lapse:plugin/sql@1.0.0";

/// Two linkers, which differ in what a call may do.
pub struct Linkers {
    /// For calls that may do nothing: every host call but `log` is denied.
    pub pure: Linker<CallState>,
    /// For calls with the rights of their export.
    pub effects: Linker<CallState>,
}

impl Linkers {
    /// For components that import our interfaces and nothing else.
    pub fn plain(engine: &Engine) -> Result<Self> {
        Ok(Self { pure: pure(engine)?, effects: effects(engine)? })
    }

    /// For those that import WASI as well. Its host functions are async: so are all calls of these.
    pub fn with_wasi(engine: &Engine) -> Result<Self> {
        let mut linkers = Self::plain(engine)?;
        wasi::link(&mut linkers.pure)?;
        wasi::link(&mut linkers.effects)?;
        Ok(linkers)
    }
}

fn pure(engine: &Engine) -> Result<Linker<CallState>> {
    let mut linker = common(engine)?;
    linker.instance(HTTP)?.func_wrap(
        "send",
        |mut store: StoreContextMut<'_, CallState>, (request,): (Request,)| -> Result<(Result<Response, HttpError>,)> {
            Ok((Err(capability::refuse(store.data_mut(), &request)),))
        },
    )?;
    linker.instance(HTTP)?.func_wrap(
        "send-with-secrets",
        |mut store: StoreContextMut<'_, CallState>,
         (request, _): (Request, Vec<SecretHeader>)|
         -> Result<(Result<Response, HttpError>,)> {
            Ok((Err(capability::refuse(store.data_mut(), &request)),))
        },
    )?;
    linker.instance(SQL)?.func_wrap(
        "transact",
        |mut store: StoreContextMut<'_, CallState>, (source, _): (String, Vec<Statement>)| -> Result<(Transacted,)> {
            Ok((Err(sql_capability::refuse(store.data_mut(), &source)),))
        },
    )?;
    linker.instance(SQL)?.func_wrap(
        "read",
        |mut store: StoreContextMut<'_, CallState>, (source, _): (String, Statement)| -> Result<(Read,)> {
            Ok((Err(sql_capability::refuse(store.data_mut(), &source)),))
        },
    )?;
    Ok(linker)
}

fn effects(engine: &Engine) -> Result<Linker<CallState>> {
    let mut linker = common(engine)?;
    linker.instance(HTTP)?.func_wrap_async(
        "send",
        |mut store: StoreContextMut<'_, CallState>, (request,): (Request,)| {
            Box::new(async move {
                let sent = capability::send(store.data_mut(), request, Vec::new()).await;
                Ok::<(Result<Response, HttpError>,), wasmtime::Error>((sent,))
            })
        },
    )?;
    linker.instance(HTTP)?.func_wrap_async(
        "send-with-secrets",
        |mut store: StoreContextMut<'_, CallState>, (request, secrets): (Request, Vec<SecretHeader>)| {
            Box::new(async move {
                let sent = capability::send(store.data_mut(), request, secrets).await;
                Ok::<(Result<Response, HttpError>,), wasmtime::Error>((sent,))
            })
        },
    )?;
    linker.instance(SQL)?.func_wrap_async(
        "transact",
        |mut store: StoreContextMut<'_, CallState>, (source, statements): (String, Vec<Statement>)| {
            Box::new(async move {
                let done = sql_capability::transact(store.data_mut(), &source, statements).await;
                Ok::<(Transacted,), wasmtime::Error>((done,))
            })
        },
    )?;
    linker.instance(SQL)?.func_wrap_async(
        "read",
        |mut store: StoreContextMut<'_, CallState>, (source, statement): (String, Statement)| {
            Box::new(async move {
                let done = sql_capability::read(store.data_mut(), &source, statement).await;
                Ok::<(Read,), wasmtime::Error>((done,))
            })
        },
    )?;
    Ok(linker)
}

fn common(engine: &Engine) -> Result<Linker<CallState>> {
    let mut linker = Linker::new(engine);
    linker.instance(LOG)?.func_wrap(
        "write",
        |mut store: StoreContextMut<'_, CallState>, (level, message): (Level, String)| -> Result<()> {
            let level = match level {
                Level::Trace => "trace",
                Level::Debug => "debug",
                Level::Info => "info",
                Level::Warn => "warn",
                Level::Error => "error",
            };
            store.data_mut().log.write(level, &message);
            Ok(())
        },
    )?;
    linker.instance(LOG)?.func_wrap(
        "count",
        |mut store: StoreContextMut<'_, CallState>, (name, step): (String, u64)| -> Result<()> {
            store.data_mut().count(&name, step);
            Ok(())
        },
    )?;
    Ok(linker)
}
