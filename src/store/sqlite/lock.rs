//! One process a database: a lock that ends with the process, however it ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use super::OpenError;

/// Held while it lives.
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    pub(super) fn take(database: &Path) -> Result<Self, OpenError> {
        let path = lock_path(database);
        let failed = |why| OpenError::File { path: path.clone(), why };
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Only for the message: the lock is what counts.
                let mut pid = String::new();
                let _ = file.read_to_string(&mut pid);
                let holder = pid.trim().parse::<u32>().map(|pid| format!(" (process {pid})")).unwrap_or_default();
                return Err(OpenError::Locked { path: database.into(), holder });
            }
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
        Ok(Self { _file: file })
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}
