//! `lapse:plugin@1.0.0`.

mod bindings;
mod lift;
mod link;
mod lower;

pub use bindings::lapse::plugin::{http, sql};
pub use link::{effects, pure};

use wasmtime::{
    Store,
    component::{Component, ComponentExportIndex, Instance, InstancePre, Lift, Linker, Lower},
};

use self::bindings::lapse::plugin::types as wit;
use super::super::call::CallState;
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
    describe: ComponentExportIndex,
    on_expire: ComponentExportIndex,
    compensate: ComponentExportIndex,
}

type Decided = (Result<wit::Decision, wit::Failure>,);
type Compensated = (Result<Option<String>, wit::Failure>,);

impl Linked {
    pub fn new(component: &Component, pure: &Linker<CallState>, effects: &Linker<CallState>) -> wasmtime::Result<Self> {
        let export = |name: &str| {
            component
                .get_export_index(None, name)
                .ok_or_else(|| wasmtime::Error::msg(format!("it does not export {name:?}")))
        };
        Ok(Self {
            pure: pure.instantiate_pre(component)?,
            effects: effects.instantiate_pre(component)?,
            describe: export("describe")?,
            on_expire: export("on-expire")?,
            compensate: export("compensate")?,
        })
    }

    /// The manifest's JSON.
    pub fn describe(&self, store: &mut Store<CallState>) -> wasmtime::Result<String> {
        let instance = self.pure.instantiate(&mut *store)?;
        self.check_types(&instance, store)?;
        let (json,): (String,) = call(&instance, store, self.describe, ())?;
        Ok(json)
    }

    pub fn on_expire(
        &self,
        store: &mut Store<CallState>,
        expiry: &Expiry,
    ) -> wasmtime::Result<Result<Decision, Failure>> {
        let instance = self.pure.instantiate(&mut *store)?;
        let (result,): Decided = call(&instance, store, self.on_expire, (lower::expiry(expiry),))?;
        Ok(lift::decided(result, &store.data().limits))
    }

    pub async fn on_expire_async(
        &self,
        store: &mut Store<CallState>,
        expiry: &Expiry,
    ) -> wasmtime::Result<Result<Decision, Failure>> {
        let instance = self.effects.instantiate_async(&mut *store).await?;
        let func = instance.get_typed_func::<_, Decided>(&mut *store, self.on_expire)?;
        let (result,) = func.call_async(&mut *store, (lower::expiry(expiry),)).await?;
        Ok(lift::decided(result, &store.data().limits))
    }

    pub async fn compensate_async(
        &self,
        store: &mut Store<CallState>,
        task: &CompensationTask,
    ) -> wasmtime::Result<Result<Option<String>, Failure>> {
        let instance = self.effects.instantiate_async(&mut *store).await?;
        let func = instance.get_typed_func::<_, Compensated>(&mut *store, self.compensate)?;
        let (result,) = func.call_async(&mut *store, (lower::task(task),)).await?;
        Ok(lift::compensated(result, &store.data().limits))
    }

    /// That every export takes and gives what the world says.
    fn check_types(&self, instance: &Instance, store: &mut Store<CallState>) -> wasmtime::Result<()> {
        instance.get_typed_func::<(wit::Expiry,), Decided>(&mut *store, self.on_expire)?;
        instance.get_typed_func::<(wit::Compensation,), Compensated>(&mut *store, self.compensate)?;
        instance.get_typed_func::<(wit::Reminder,), Compensated>(&mut *store, "on-remind")?;
        Ok(())
    }
}

fn call<P, R>(
    instance: &Instance,
    store: &mut Store<CallState>,
    export: ComponentExportIndex,
    params: P,
) -> wasmtime::Result<R>
where
    P: wasmtime::component::ComponentNamedList + Lower + 'static,
    R: wasmtime::component::ComponentNamedList + Lift + 'static,
{
    instance.get_typed_func::<P, R>(&mut *store, export)?.call(&mut *store, params)
}
