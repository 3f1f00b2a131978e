//! A new plugin's project: the language's template, with the SDK beside it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::{Language, files};
use crate::domain::id::Name;

#[derive(Debug, thiserror::Error)]
pub enum NewError {
    #[error("{0} is there already, and not empty")]
    Exists(PathBuf),
    #[error("{path} cannot be written: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error("the guest crate's manifest cannot be read: {0}")]
    Manifest(String),
}

pub struct NewParams<'a> {
    pub name: &'a Name,
    pub language: Language,
    /// Made if it is not there.
    pub dir: &'a Path,
}

/// Writes the project, and gives its files' paths within it.
pub fn new_project(params: &NewParams<'_>) -> Result<Vec<PathBuf>, NewError> {
    let NewParams { name, language, dir } = *params;
    if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(NewError::Exists(dir.to_owned()));
    }
    let (template, vendored) = match language {
        Language::Rust => ("plugins/templates/rust/", rust_sdk()?),
        Language::TypeScript => ("plugins/templates/ts/", copied("plugins/sdk-ts/")),
        Language::Python => ("plugins/templates/python/", Vec::new()),
    };
    let mut written = Vec::new();
    for file in files::under(template) {
        let text =
            file.text().replace("{{name}}", name.as_str()).replace("{{ident}}", &name.as_str().replace('-', "_"));
        // A template that tools of ours would take for a project has another name.
        let path = file.name(template);
        let path = path.strip_suffix(".in").unwrap_or(path);
        let path = if path == "gitignore" { ".gitignore" } else { path };
        written.push((PathBuf::from(path), text));
    }
    written.extend(vendored.into_iter().map(|(path, text)| (Path::new("vendor/lapse-plugin").join(path), text)));
    for (path, text) in &written {
        let path = dir.join(path);
        let put = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, text));
        put.map_err(|source| NewError::Write { path, source })?;
    }
    Ok(written.into_iter().map(|(path, _)| path).collect())
}

fn copied(below: &'static str) -> Vec<(PathBuf, String)> {
    files::under(below).map(|file| (PathBuf::from(file.name(below)), file.text().to_owned())).collect()
}

/// The guest crate, made to stand by itself: what it takes from its workspace is written out, and it has the interface
/// within.
fn rust_sdk() -> Result<Vec<(PathBuf, String)>, NewError> {
    let mut sdk = copied("plugins/sdk/");
    for (path, text) in &mut sdk {
        if path == Path::new("Cargo.toml") {
            *text = whole_manifest(text, files::text("plugins/Cargo.toml"))?;
        } else if path == Path::new("src/lib.rs") {
            *text = text.replace("../../wit/v1", "wit/v1");
        }
    }
    let wit = files::under("wit/").map(|file| (PathBuf::from(file.path), file.text().to_owned()));
    sdk.extend(wit);
    Ok(sdk)
}

/// A member's manifest with all that it inherits (`x.workspace = true`) put in.
fn whole_manifest(member: &str, workspace: &str) -> Result<String, NewError> {
    let read = |text: &str| text.parse::<toml::Table>().map_err(|e| NewError::Manifest(e.to_string()));
    let workspace = read(workspace)?;
    let shared = |table: &str| workspace.get("workspace").and_then(|w| w.get(table)).cloned();
    let mut member = read(member)?;
    for (table, shared) in [("package", shared("package")), ("dependencies", shared("dependencies"))] {
        let Some(entries) = member.get_mut(table).and_then(toml::Value::as_table_mut) else { continue };
        for (name, value) in entries {
            if value.get("workspace").and_then(toml::Value::as_bool) == Some(true) {
                let found = shared.as_ref().and_then(|s| s.get(name));
                *value = found.cloned().ok_or_else(|| NewError::Manifest(format!("{name} is in no workspace")))?;
            }
        }
    }
    toml::to_string(&member).map_err(|e| NewError::Manifest(e.to_string()))
}
