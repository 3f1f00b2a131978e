//! Write plugins for Lapse in Rust.
//!
//! A plugin is a type that implements [`Plugin`], named once in [`export!`]:
//!
//! ```ignore
//! use lapse_plugin::{Decision, Expiry, Failure, Manifest, Plugin};
//! use serde::Deserialize;
//!
//! struct Greeting;
//!
//! #[derive(Deserialize)]
//! struct Payload { name: String }
//!
//! impl Plugin for Greeting {
//!     type Payload = Payload;
//!     type Config = ();
//!
//!     fn manifest() -> Manifest {
//!         Manifest::new("greeting", env!("CARGO_PKG_VERSION"))
//!             .payload_schema(r#"{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}"#)
//!     }
//!
//!     fn on_expire(_ctx: &Expiry, payload: Payload, _config: ()) -> Result<Decision, Failure> {
//!         Ok(Decision::close().result(&payload.name))
//!     }
//! }
//!
//! lapse_plugin::export!(Greeting);
//! ```
//!
//! There is no clock, no randomness and no network but what comes with a call and what an operator granted: the same
//! input gives the same decision. Build it as a `cdylib` with `lapse plugin build`.

mod decision;
mod failure;
pub mod http;
pub mod log;
mod manifest;
mod plugin;
pub mod sql;
mod whole;

/// The generated bindings of `lapse:plugin@1.0.0`. What has a helper in this crate is better reached through it.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/v1",
        world: "plugin",
        pub_export_macro: true,
        export_macro_name: "export_component",
        default_bindings_module: "lapse_plugin::bindings",
        generate_all,
    });
}

pub use bindings::lapse::plugin::types::{Compensation, Expiry, FailureClass, Reminder, Trigger};
pub use decision::{Decision, Due, FollowUp};
pub use failure::Failure;
pub use manifest::{Capability, Export, Manifest, Retry};
pub use plugin::Plugin;
#[doc(hidden)]
pub use plugin::adapter;
pub use serde_json::{Value, json};
pub use whole::Whole;

/// Makes the crate a component: the plugin's type, named once.
#[macro_export]
macro_rules! export {
    ($plugin:ty) => {
        const _: () = {
            struct Component;

            impl $crate::bindings::Guest for Component {
                fn describe() -> ::std::string::String {
                    $crate::adapter::describe::<$plugin>()
                }

                fn on_expire(
                    ctx: $crate::bindings::Expiry,
                ) -> ::core::result::Result<$crate::bindings::Decision, $crate::bindings::Failure> {
                    $crate::adapter::on_expire::<$plugin>(ctx)
                }

                fn on_remind(
                    ctx: $crate::bindings::Reminder,
                ) -> ::core::result::Result<::core::option::Option<::std::string::String>, $crate::bindings::Failure>
                {
                    $crate::adapter::on_remind::<$plugin>(ctx)
                }

                fn compensate(
                    task: $crate::bindings::Compensation,
                ) -> ::core::result::Result<::core::option::Option<::std::string::String>, $crate::bindings::Failure>
                {
                    $crate::adapter::compensate::<$plugin>(task)
                }
            }

    $crate::bindings::export_component!(Component with_types_in $crate::bindings);
        };
    };
}
