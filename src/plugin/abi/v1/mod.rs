//! `lapse:plugin@1.0.0`.

mod bindings;
mod lift;
mod link;
mod lower;

pub use bindings::lapse::plugin::{http, sql};
pub use link::Linkers;

use std::sync::Arc;

use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, ComponentNamedList, Instance, InstancePre, Lift, Lower},
};

use self::bindings::lapse::plugin::types as wit;
use super::super::{call::CallState, wasi};
use crate::domain::decision::{CompensationTask, Decision, Expiry, Failure};

/// The interfaces that a component may import.
pub const IMPORTS: [&str; 4] =
    ["lapse:plugin/types@1.0.0", "lapse:plugin/log@1.0.0", "lapse:plugin/http@1.0.0", "lapse:plugin/sql@1.0.0"];
/// The functions that it must export.
pub const EXPORTS: [&str; 4] = ["describe", "on-expire", "on-remind", "compensate"];

/// A component that is linked, with the places of its exports.
pub struct Linked {
    pure: InstancePre<CallState>,
    effects: InstancePre<CallState>,
    has_wasi: bool,
    describe: ComponentExportIndex,
    on_expire: ComponentExportIndex,
    compensate: ComponentExportIndex,
}

type Decided = (Result<wit::Decision, wit::Failure>,);
type Compensated = (Result<Option<String>, wit::Failure>,);

impl Linked {
    pub fn new(component: &Component, plain: &Linkers, with_wasi: &Linkers) -> wasmtime::Result<Self> {
        let has_wasi =
            component.component_type().imports(component.engine()).any(|(name, _)| name.starts_with("wasi:"));
        let linkers = if has_wasi { with_wasi } else { plain };
        let export = |name: &str| {
            component
                .get_export_index(None, name)
                .ok_or_else(|| wasmtime::Error::msg(format!("it does not export {name:?}")))
        };
        Ok(Self {
            pure: linkers.pure.instantiate_pre(component)?,
            effects: linkers.effects.instantiate_pre(component)?,
            has_wasi,
            describe: export("describe")?,
            on_expire: export("on-expire")?,
            compensate: export("compensate")?,
        })
    }

    /// Whether its calls need [`wasi::Wasi`] in their store.
    pub fn has_wasi(&self) -> bool {
        self.has_wasi
    }

    /// The manifest's JSON.
    pub fn describe(&self, store: &mut Store<CallState>) -> wasmtime::Result<String> {
        let instance = self.pure_instance(store)?;
        self.check_types(&instance, store)?;
        let (json,): (String,) = self.call(&instance, store, (self.describe, ()))?;
        Ok(json)
    }

    pub fn on_expire(
        &self,
        store: &mut Store<CallState>,
        expiry: &Expiry,
    ) -> wasmtime::Result<Result<Decision, Failure>> {
        let instance = self.pure_instance(store)?;
        let (result,): Decided = self.call(&instance, store, (self.on_expire, (lower::expiry(expiry),)))?;
        Ok(lift::decided(result, &store.data().limits))
    }

    pub async fn on_expire_async(
        &self,
        store: &mut Store<CallState>,
        expiry: &Expiry,
    ) -> wasmtime::Result<Result<Decision, Failure>> {
        let params = (lower::expiry(expiry),);
        let (result,): Decided = self.call_with_effects(store, self.on_expire, params).await?;
        Ok(lift::decided(result, &store.data().limits))
    }

    pub async fn compensate_async(
        &self,
        store: &mut Store<CallState>,
        task: &CompensationTask,
    ) -> wasmtime::Result<Result<Option<String>, Failure>> {
        let params = (lower::task(task),);
        let (result,): Compensated = self.call_with_effects(store, self.compensate, params).await?;
        Ok(lift::compensated(result, &store.data().limits))
    }

    /// An instance without rights.
    fn pure_instance(&self, store: &mut Store<CallState>) -> wasmtime::Result<Instance> {
        if !self.has_wasi {
            return self.pure.instantiate(store);
        }
        let meter = Arc::clone(&store.data().meter);
        wasi::block_on(&meter, self.pure.instantiate_async(store))
    }

    /// On this thread.
    fn call<P: Params, R: Results>(
        &self,
        instance: &Instance,
        store: &mut Store<CallState>,
        (export, params): (ComponentExportIndex, P),
    ) -> wasmtime::Result<R> {
        let func = instance.get_typed_func::<P, R>(&mut *store, export)?;
        if !self.has_wasi {
            return func.call(store, params);
        }
        let meter = Arc::clone(&store.data().meter);
        wasi::block_on(&meter, func.call_async(store, params))
    }

    /// With the rights that the store has.
    async fn call_with_effects<P: Params, R: Results>(
        &self,
        store: &mut Store<CallState>,
        export: ComponentExportIndex,
        params: P,
    ) -> wasmtime::Result<R> {
        let instance = self.effects.instantiate_async(&mut *store).await?;
        let func = instance.get_typed_func::<P, R>(&mut *store, export)?;
        func.call_async(store, params).await
    }

    /// That every export takes and gives what the world says.
    fn check_types(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<()> {
        instance.get_typed_func::<(wit::Expiry,), Decided>(&mut *store, self.on_expire)?;
        instance.get_typed_func::<(wit::Compensation,), Compensated>(&mut *store, self.compensate)?;
        instance.get_typed_func::<(wit::Reminder,), Compensated>(&mut *store, "on-remind")?;
        Ok(())
    }
}

/// What an export takes.
trait Params: ComponentNamedList + Lower + Send + Sync + 'static {}
impl<T: ComponentNamedList + Lower + Send + Sync + 'static> Params for T {}

/// What an export gives.
trait Results: ComponentNamedList + Lift + Send + Sync + 'static {}
impl<T: ComponentNamedList + Lift + Send + Sync + 'static> Results for T {}
