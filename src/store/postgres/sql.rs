//! The statements, which stand in `sql/*.sql`, one file an entity. In a file each statement follows a line
//! `-- name: …`; `{columns}` and `{new_rows}` stand for the fragments of those names, `{now}` for the server's clock in
//! milliseconds, and `{begun}` for what it was when the statement was begun.

use std::{collections::BTreeMap, sync::LazyLock};

const FILES: [(&str, &str); 5] = [
    ("timers", include_str!("sql/timers.sql")),
    ("events", include_str!("sql/events.sql")),
    ("compensations", include_str!("sql/compensations.sql")),
    ("catalogue", include_str!("sql/catalogue.sql")),
    ("sealed", include_str!("sql/sealed.sql")),
];

/// Rounded down: what has not quite come is not yet there.
pub(super) const NOW: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Begins to hear what `timers.tell_near` tells.
pub(super) const LISTEN_NEAR: &str = "LISTEN lapse_near";

/// The same as of the statement's beginning: one value for all of it, by which an index can be entered.
const BEGUN: &str = "floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint";

/// Names of fragments, as opposed to statements.
const FRAGMENTS: [&str; 2] = ["columns", "new_rows"];

/// Whether the server is one that cannot be written to.
pub(super) const IS_READ_ONLY: &str = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean";

static STATEMENTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut statements = BTreeMap::new();
    for (entity, file) in FILES {
        let mut fragments = Vec::new();
        for part in file.split("-- name: ").skip(1) {
            let (name, text) = part.split_once('\n').unwrap_or((part, ""));
            if FRAGMENTS.contains(&name) {
                fragments.push((format!("{{{name}}}"), text.trim()));
            } else {
                let text = fragments.iter().fold(text.trim().to_owned(), |text, (name, of)| text.replace(name, of));
                let text = text.replace("{now}", NOW).replace("{begun}", BEGUN);
                statements.insert(format!("{entity}.{name}"), text);
            }
        }
    }
    statements
});

/// Every statement with its name, such as `timers.insert`.
pub fn statements() -> impl Iterator<Item = (&'static str, &'static str)> {
    STATEMENTS.iter().map(|(name, text)| (name.as_str(), text.as_str()))
}
