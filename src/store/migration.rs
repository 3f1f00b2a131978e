//! Numbered migrations, up and down, embedded from `migrations/`, one folder a database.

use crate::domain::time::Timestamp;

/// One step of a database's tables.
pub(super) struct Migration {
    pub number: u32,
    pub name: &'static str,
    pub up: &'static str,
    pub down: &'static str,
}

/// One migration, and when it was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationStatus {
    pub number: u32,
    pub name: String,
    pub applied_at: Option<Timestamp>,
}

impl Migration {
    pub fn status(&self, applied_at: Option<Timestamp>) -> MigrationStatus {
        MigrationStatus { number: self.number, name: self.name.into(), applied_at }
    }
}

/// The migration `migrations/FOLDER/FILE_NAME.{up,down}.sql`.
macro_rules! migration {
    ($folder:literal, $number:literal, $file:literal, $name:literal) => {
        $crate::store::migration::Migration {
            number: $number,
            name: $name,
            up: include_str!(concat!("../../../migrations/", $folder, "/", $file, "_", $name, ".up.sql")),
            down: include_str!(concat!("../../../migrations/", $folder, "/", $file, "_", $name, ".down.sql")),
        }
    };
}
pub(super) use migration;
