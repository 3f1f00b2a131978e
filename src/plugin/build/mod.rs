//! From a plugin's source to a component, in each language that there is a guest SDK for; and new projects.
//!
//! What a folder holds says its language: `Cargo.toml` Rust, `package.json` TypeScript, `pyproject.toml` Python. The
//! interface (`wit/`), the SDKs and the templates are within this binary, so that a project outside this repository
//! needs nothing of it.

mod files;
mod new;
mod python;
mod rust;
mod stamp;
mod typescript;

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub use new::{NewError, NewParams, new_project};
use stamp::Stamp;

/// A language that plugins are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    Rust,
    TypeScript,
    Python,
}

/// How deep below a folder plugins are looked for.
const DEPTH: usize = 3;
/// Folders that hold no plugins of their own.
const OTHERS: [&str; 6] = ["node_modules", "target", "dist", "vendor", "templates", "sdk-ts"];

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "there is no plugin in {dir}: it has no Cargo.toml, package.json or pyproject.toml; `lapse plugin new NAME` makes one"
    )]
    NoPlugin { dir: PathBuf },
    #[error(
        "no Rust here can build for {target}: run `rustup target add {target}`, or on Debian `apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev lld`",
        target = rust::TARGET
    )]
    NoToolchain,
    #[error("{program} cannot be run: {source}; {need}")]
    Run { program: String, source: io::Error, need: &'static str },
    #[error("{program} could not build {dir}; what it said stands above")]
    Failed { program: String, dir: PathBuf },
    #[error("cargo's answer cannot be read: {0}")]
    Answer(serde_json::Error),
    #[error("{path} cannot be read: {why}")]
    Project { path: PathBuf, why: String },
    #[error("{dir} has no {tool} among its packages: add it with `npm install --save-dev {tool}`")]
    NoTool { dir: PathBuf, tool: &'static str },
    #[error(
        "{dir} builds {count} plugins where one was looked for; a plugin is a crate with crate-type = [\"cdylib\"]"
    )]
    Count { dir: PathBuf, count: usize },
    #[error("{name} is not a plugin's module: {why}")]
    Module { name: String, why: String },
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
}

impl BuildError {
    fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

/// Builds the plugin in `dir`, and gives the path of the component, within the project.
pub fn build_plugin(dir: &Path) -> Result<PathBuf, BuildError> {
    match language(dir) {
        Some(Language::Rust) => rust::build(dir),
        Some(Language::TypeScript) => build_once(dir, &dir.join("dist"), Language::TypeScript),
        Some(Language::Python) => build_once(dir, &dir.join("dist"), Language::Python),
        None => Err(BuildError::NoPlugin { dir: dir.to_owned() }),
    }
}

/// Builds every plugin in `dir` and below it into `out`, each as `<name>.wasm`: a Rust workspace in `dir`, and what is
/// written in other languages, up to three folders deep. Only those in the language, if one is given.
pub fn build_all(dir: &Path, out: &Path, only: Option<Language>) -> Result<Vec<PathBuf>, BuildError> {
    let wanted = |language| only.is_none_or(|only| only == language);
    let mut built = Vec::new();
    if wanted(Language::Rust) && dir.join("Cargo.toml").is_file() {
        built.extend(rust::build_workspace(dir, out)?);
    }
    let mut found = Vec::new();
    find(dir, DEPTH, &mut found)?;
    for dir in found {
        if wanted(Language::TypeScript) && typescript::is_plugin(&dir) {
            built.push(build_once(&dir, out, Language::TypeScript)?);
        } else if wanted(Language::Python) && python::is_plugin(&dir) {
            built.push(build_once(&dir, out, Language::Python)?);
        }
    }
    if built.is_empty() { Err(BuildError::NoPlugin { dir: dir.to_owned() }) } else { Ok(built) }
}

/// Builds a project in a language that cargo does not look after, unless it was built as it is.
fn build_once(dir: &Path, out: &Path, language: Language) -> Result<PathBuf, BuildError> {
    let (name, also): (_, &[&str]) = match language {
        Language::Python => (python::name(dir)?, &["requirements.txt"]),
        _ => (typescript::name(dir)?, &["package-lock.json", "node_modules/@lapse/plugin"]),
    };
    let stamp = || Stamp::of(dir, also);
    if let Some(made) = stamp().and_then(|stamp| stamp.made(component_path(out, &name))) {
        return Ok(made);
    }
    let own = Stamp::of(dir, &[]);
    let built = match language {
        Language::Python => python::build(dir, out)?,
        _ => typescript::build(dir, out)?,
    };
    // Of what was changed meanwhile nobody knows which of it was taken. The tools' packages may have come only now.
    if own.is_some()
        && own == Stamp::of(dir, &[])
        && let Some(stamp) = stamp()
    {
        stamp.note(&built)?;
    }
    Ok(built)
}

fn language(dir: &Path) -> Option<Language> {
    let files =
        [("Cargo.toml", Language::Rust), ("package.json", Language::TypeScript), ("pyproject.toml", Language::Python)];
    files.into_iter().find(|(name, _)| dir.join(name).is_file()).map(|(_, language)| language)
}

/// The folders that may hold a plugin, in order.
fn find(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), BuildError> {
    found.push(dir.to_owned());
    if depth == 0 {
        return Ok(());
    }
    let entries = fs::read_dir(dir).map_err(|e| BuildError::file(dir, e))?;
    let mut inner: Vec<PathBuf> = entries.filter_map(Result::ok).map(|e| e.path()).filter(|p| p.is_dir()).collect();
    inner.sort();
    for path in inner {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        if !name.starts_with('.') && !OTHERS.contains(&name) {
            find(&path, depth - 1, found)?;
        }
    }
    Ok(())
}

fn component_path(out: &Path, name: &str) -> PathBuf {
    out.join(format!("{name}.wasm"))
}

/// Left alone if nothing has changed, so that what depends on it need not be made again.
fn put_component(out: &Path, name: &str, component: &[u8]) -> Result<PathBuf, BuildError> {
    let path = component_path(out, name);
    if fs::read(&path).is_ok_and(|there| there == component) {
        return Ok(path);
    }
    fs::create_dir_all(out).map_err(|e| BuildError::file(out, e))?;
    // Renamed into place: whoever reads it meanwhile sees the old one or the new one.
    let draft = out.join(format!(".{name}.{}.draft", std::process::id()));
    let put = fs::write(&draft, component).and_then(|()| fs::rename(&draft, &path));
    put.map_err(|e| BuildError::file(&path, e))?;
    Ok(path)
}

/// The nearest folder, `dir` or above it, that has this.
fn above(dir: &Path, has: &str) -> Option<PathBuf> {
    dir.ancestors().find(|a| a.join(has).exists()).map(Path::to_owned)
}

/// What it writes to its standard output; its complaints go where ours go.
fn output(command: &mut Command, dir: &Path, need: &'static str) -> Result<Vec<u8>, BuildError> {
    let program = command.get_program();
    let program = Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned();
    let answer = command.current_dir(dir).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    match answer {
        Err(source) => Err(BuildError::Run { program, source, need }),
        Ok(answer) if answer.status.success() => Ok(answer.stdout),
        Ok(_) => Err(BuildError::Failed { program, dir: dir.to_owned() }),
    }
}

/// The interface's definition, for tools that want it in a folder.
fn put_wit(dir: &Path) -> Result<(), BuildError> {
    let put = |file: files::File| {
        let path = dir.join(file.name("wit/v1/"));
        fs::write(&path, file.bytes).map_err(|e| BuildError::file(&path, e))
    };
    fs::create_dir_all(dir).map_err(|e| BuildError::file(dir, e))?;
    files::under("wit/v1/").try_for_each(put)
}
