//! The pure rules, over everything that can be asked of them.

mod backoff;
mod machine;
mod time;
