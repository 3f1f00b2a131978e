pub mod dev;
pub mod guest;
pub mod nats;
pub mod postgres;
pub mod proxy;
