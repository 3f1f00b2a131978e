//! The statements, which stand in `sql/*.sql`, one file an entity. In a file each statement follows a line
//! `-- name: …`; `{columns}` stands for the fragment of that name, and `{now}` for the server's clock in milliseconds.

use std::{collections::BTreeMap, sync::LazyLock};

const FILES: [(&str, &str); 4] = [
    ("timers", include_str!("sql/timers.sql")),
    ("events", include_str!("sql/events.sql")),
    ("compensations", include_str!("sql/compensations.sql")),
    ("catalogue", include_str!("sql/catalogue.sql")),
];

/// Rounded down: what has not quite come is not yet there.
pub(super) const NOW: &str = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// Begins to hear what `timers.tell_near` tells.
pub(super) const LISTEN_NEAR: &str = "LISTEN lapse_near";

static STATEMENTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut statements = BTreeMap::new();
    for (entity, file) in FILES {
        let mut columns = "";
        for part in file.split("-- name: ").skip(1) {
            let (name, text) = part.split_once('\n').unwrap_or((part, ""));
            if name == "columns" {
                columns = text.trim();
            } else {
                let text = text.trim().replace("{columns}", columns).replace("{now}", NOW);
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
