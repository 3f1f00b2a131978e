//! Wires the rooms together; knows the order of starting and of draining. The only place that knows all rooms.

use std::net::SocketAddr;

use crate::{catalog::Catalog, config::Config, store::Store};

/// A running node.
pub struct App {
    _private: (),
}

/// What the first start may need.
#[derive(Clone, Debug, Default)]
pub struct Bootstrap {
    /// Becomes the first admin key, only while there is no key at all.
    pub admin_token: Option<String>,
}

impl App {
    /// Opens the store, compiles the active plugins, starts the engine and then the API.
    pub async fn start(config: Config, bootstrap: Bootstrap) -> anyhow::Result<Self> {
        todo!("{config:?} {bootstrap:?}")
    }

    /// The address that the API listens on.
    pub fn address(&self) -> SocketAddr {
        todo!()
    }

    pub fn store(&self) -> &Store {
        todo!()
    }

    pub fn catalog(&self) -> &Catalog {
        todo!()
    }

    /// Drains: unready, nothing new taken, what runs finished within the bound, leases released.
    pub async fn stop(self) {
        todo!()
    }
}
