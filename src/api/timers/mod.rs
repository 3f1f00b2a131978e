//! Timers: registering, finding, acting on them, and their audit.

mod act;
mod batch;
mod events;
mod find;
mod register;
mod view;

pub use self::view::Timer;
pub(super) use self::view::TimerAnswer;
pub(super) use self::{act::*, batch::*, events::*, find::*, register::*};
