pub mod dev;
pub mod guest;
