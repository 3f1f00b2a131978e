//! Logs and metrics.

mod logs;
mod measures;

pub use self::{
    logs::{FilterError, init_logs},
    measures::{init_metrics, sum_up_metrics},
};
