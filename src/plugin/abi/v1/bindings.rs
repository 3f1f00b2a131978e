//! Generated from `wit/v1`. Only the types are used; `link` binds the functions to the capabilities.

wasmtime::component::bindgen!({
    path: "wit/v1",
    world: "plugin",
});
