//! What the tests of several rooms share.

pub mod app;
pub mod authority;
pub mod cutter;
pub mod dev;
pub mod fake_host;
pub mod guest;
pub mod mariadb;
pub mod nats;
pub mod postgres;
pub mod proxy;
