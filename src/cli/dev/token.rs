//! The key of `lapse dev`: made up once, and kept in the data folder.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use crate::api;

use super::super::{Result, connect::read_token, error::Error, serve::check_token};

pub struct Token {
    pub value: String,
    file: PathBuf,
    /// Whether it was given, and so is not in the file yet.
    given: bool,
}

/// The key that was given, or the one that is kept, or a new one, which is on disk before anybody learns of it.
pub fn choose(data: &Path, given: Option<&str>) -> Result<Token> {
    let folder = |e| Error::Other(anyhow::anyhow!("cannot make the data folder {}: {e}", data.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(folder)?;
    let file = data.join("token");
    if let Some(value) = given {
        check_token(value)?;
        return Ok(Token { value: value.to_owned(), file, given: true });
    }
    if let Some(value) = read_token(&file) {
        return Ok(Token { value, file, given: false });
    }
    let token = Token { value: api::new_token(), file, given: false };
    write(&token.file, &token.value)?;
    Ok(token)
}

impl Token {
    /// Keeps a key that was given and that the server took, so that the commands find it.
    pub fn keep(&self) -> Result {
        if self.given && read_token(&self.file).as_deref() != Some(&self.value) {
            write(&self.file, &self.value)
        } else {
            Ok(())
        }
    }

    /// What to do about a server that does not know the key.
    pub fn refused(&self, data: &Path) -> Error {
        let (data, file) = (data.display(), self.file.display());
        if self.given {
            Error::hinted(
                format!("the data folder {data} was started with another key than --token"),
                format!("leave --token out to use the one in {file}, or give another --data folder"),
            )
        } else {
            Error::hinted(
                format!("the key in {file} is none of this data folder's"),
                "give an admin key with --token, or another --data folder",
            )
        }
    }
}

/// Written whole under another name first: a kill never leaves half a key behind.
fn write(file: &Path, token: &str) -> Result {
    let partial = file.with_extension("partial");
    let _ = fs::remove_file(&partial);
    let mut new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial)?;
    writeln!(new, "{token}")?;
    new.sync_all()?;
    fs::rename(&partial, file)?;
    if let Some(folder) = file.parent() {
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
