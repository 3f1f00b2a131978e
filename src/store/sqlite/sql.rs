//! The statements, which stand in `sql/*.sql`, one file an entity. In a file each statement follows a line
//! `-- name: …`, and `{columns}` stands for the fragment of that name.

use std::{collections::BTreeMap, sync::LazyLock};

const FILES: [(&str, &str); 5] = [
    ("timers", include_str!("sql/timers.sql")),
    ("events", include_str!("sql/events.sql")),
    ("compensations", include_str!("sql/compensations.sql")),
    ("catalogue", include_str!("sql/catalogue.sql")),
    ("sealed", include_str!("sql/sealed.sql")),
];

static STATEMENTS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut statements = BTreeMap::new();
    for (entity, file) in FILES {
        let mut columns = "";
        for part in file.split("-- name: ").skip(1) {
            let (name, text) = part.split_once('\n').unwrap_or((part, ""));
            if name == "columns" {
                columns = text.trim();
            } else {
                statements.insert(format!("{entity}.{name}"), text.trim().replace("{columns}", columns));
            }
        }
    }
    statements
});

/// The statement of this name, such as `timers.insert`.
pub(super) fn text(name: &str) -> &'static str {
    STATEMENTS.get(name).unwrap_or_else(|| unreachable!("no statement is named {name}"))
}

/// Every statement with its name, for a test of their query plans.
pub fn statements() -> impl Iterator<Item = (&'static str, &'static str)> {
    STATEMENTS.iter().map(|(name, text)| (name.as_str(), text.as_str()))
}
