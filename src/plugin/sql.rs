//! The `sql` capability. Plugins can ask for it, and are told that it is not granted: this version has no data sources.

use super::{abi::v1::sql::SqlError, call::CallState};

/// Every batch is denied; it counts as a host call.
pub fn transact(state: &mut CallState, source: &str) -> SqlError {
    if !state.count_host_call() {
        return SqlError::TooManyCalls;
    }
    let why = format!("sql on {:?} is not granted: there are no data sources", super::text::cut(source, 100));
    state.deny(why.clone());
    SqlError::Denied(why)
}
