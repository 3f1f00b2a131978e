//! SQLite: the embedded default.
