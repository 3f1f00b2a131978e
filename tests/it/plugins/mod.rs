//! The plugin host against real components: what it takes, what it runs, and what it holds off.

mod host;
mod order_timeout;
