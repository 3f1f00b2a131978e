//! Where a data source is: what its URL says, and whether it may be there.

use std::path::{Component, Path, PathBuf};

use percent_encoding::percent_decode_str;
use url::Url;

use super::{Error, Settings, Source};
use crate::config::Secret;

const URL_BYTES: usize = 2_048;

/// Which database speaks there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Postgres,
    /// MySQL and MariaDB.
    Mysql,
    Sqlite,
}

impl Dialect {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }
}

/// Why a URL is not one of a data source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; write postgres://USER:PASSWORD@HOST:5432/DATABASE, mysql://USER:PASSWORD@HOST:3306/DATABASE or sqlite:FILE, the first two with ?sslmode=require for TLS"
)]
pub struct BadUrl(pub &'static str);

/// A URL taken apart: what may be shown, and what is kept sealed.
#[derive(Clone, Debug)]
pub struct Kept {
    pub dialect: Dialect,
    /// Without the password.
    pub url: String,
    pub password: Secret,
}

/// Takes the password out of a URL that is well formed.
pub fn keep(given: &str) -> Result<Kept, BadUrl> {
    if given.len() > URL_BYTES || given.chars().any(char::is_control) {
        return Err(BadUrl("it is too long, or has control characters"));
    }
    if let Some(file) = given.strip_prefix("sqlite:") {
        let file = file.strip_prefix("//").unwrap_or(file);
        check_file(file)?;
        return Ok(Kept { dialect: Dialect::Sqlite, url: format!("sqlite:{file}"), password: Secret::default() });
    }
    let mut url = Url::parse(given).map_err(|_| BadUrl("it is not a URL"))?;
    let dialect = Place::of(&url)?.dialect;
    let password = url.password().unwrap_or_default();
    let password = percent_decode_str(password).decode_utf8().map_err(|_| BadUrl("its password is not UTF-8"))?;
    let password = Secret::new(password.into_owned());
    let _ = url.set_password(None);
    Ok(Kept { dialect, url: url.to_string(), password })
}

fn check_file(file: &str) -> Result<(), BadUrl> {
    if file.is_empty() || file.starts_with(':') || file.contains('?') || file.contains('\0') {
        return Err(BadUrl("it names no file"));
    }
    let path = Path::new(file);
    if path.components().any(|part| matches!(part, Component::ParentDir)) {
        return Err(BadUrl("its file is reached by .."));
    }
    Ok(())
}

/// A server's address, with what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub dialect: Dialect,
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pub tls: bool,
}

impl Place {
    fn of(url: &Url) -> Result<Self, BadUrl> {
        let (dialect, port) = match url.scheme() {
            "postgres" | "postgresql" => (Dialect::Postgres, 5432),
            "mysql" | "mariadb" => (Dialect::Mysql, 3306),
            _ => return Err(BadUrl("it does not say which database it is for")),
        };
        let host = match url.host_str() {
            // A socket's path would come percent-encoded.
            Some(host) if !host.is_empty() && !host.contains('%') => host.trim_matches(['[', ']']).to_owned(),
            _ => return Err(BadUrl("it names no host")),
        };
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().map(std::borrow::Cow::into_owned);
        let user = decoded(url.username()).ok().filter(|u| !u.is_empty()).ok_or(BadUrl("it names no user"))?;
        let database = decoded(url.path().trim_start_matches('/')).ok();
        let database = database.filter(|d| !d.is_empty()).ok_or(BadUrl("it names no database"))?;
        let mut tls = false;
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                ("sslmode", "disable") => tls = false,
                ("sslmode", "require" | "verify-full") => tls = true,
                ("sslmode", _) => return Err(BadUrl("sslmode is disable or require")),
                _ => return Err(BadUrl("it has a parameter other than sslmode")),
            }
        }
        if url.fragment().is_some() {
            return Err(BadUrl("it has a fragment"));
        }
        Ok(Self { dialect, host, port: url.port().unwrap_or(port), user, database, tls })
    }
}

/// What a data source's connections are made to.
#[derive(Clone, Debug)]
pub enum Endpoint {
    Server(Place),
    File(PathBuf),
}

impl Endpoint {
    pub fn of(source: &Source, settings: &Settings) -> Result<Self, Error> {
        let misplaced = |bad: BadUrl| Error::Misplaced(bad.to_string());
        let url = &source.definition.url;
        if let Some(file) = url.strip_prefix("sqlite:") {
            check_file(file).map_err(misplaced)?;
            return file_of(file, source, settings).map(Self::File);
        }
        let url = Url::parse(url).map_err(|_| misplaced(BadUrl("it is not a URL")))?;
        Place::of(&url).map(Self::Server).map_err(misplaced)
    }

    pub fn dialect(&self) -> Dialect {
        match self {
            Self::Server(place) => place.dialect,
            Self::File(_) => Dialect::Sqlite,
        }
    }
}

/// A file in the namespace's own folder below the one that the settings allow, wherever links lead; never Lapse's own.
fn file_of(file: &str, source: &Source, settings: &Settings) -> Result<PathBuf, Error> {
    let refused = |why: String| Error::Misplaced(why);
    let allowed = &settings.config.sqlite_folder;
    if allowed.as_os_str().is_empty() {
        return Err(refused("this server allows no SQLite files: sql.sqlite_folder is not set".to_owned()));
    }
    let home = allowed.join(&source.namespace);
    let wanted = home.join(file);
    let missing = |path: &Path| {
        refused(format!(
            "there is no file {} in the folder {}",
            path.display(),
            allowed.join(&source.namespace).display()
        ))
    };
    let found = wanted.canonicalize().map_err(|_| missing(Path::new(file)))?;
    let home = home.canonicalize().map_err(|_| missing(Path::new(file)))?;
    if !found.starts_with(&home) || !found.is_file() {
        return Err(missing(Path::new(file)));
    }
    if settings.own_folder.canonicalize().is_ok_and(|own| found.starts_with(own)) {
        return Err(refused("the file is one of Lapse's own".to_owned()));
    }
    Ok(found)
}
