pub mod dev;
pub mod guest;
pub mod nats;
pub mod proxy;
