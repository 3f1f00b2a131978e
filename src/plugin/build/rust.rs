//! From a crate's source to a core module, with cargo and nothing else.
//!
//! A Rust that has the standard library for `wasm32-unknown-unknown` (rustup's) is used as it is. Debian ships none, but
//! has a newer Rust under names of its own that can build one from source; it works in a target folder of its own, since
//! the two would undo each other's work.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::Deserialize;

use super::{BuildError, output, put_component};

const NEED: &str = "plugins in Rust need Rust: https://rustup.rs";
pub const TARGET: &str = "wasm32-unknown-unknown";
/// Where Debian's `rust-web-src` puts the standard library's source.
const DEBIAN_SOURCE: &str = "/usr/lib/rustlib/src/rust/library";
const DEBIAN_LINKERS: [&str; 4] =
    ["/usr/bin/wasm-ld", "/usr/bin/wasm-ld-14", "/usr/bin/wasm-ld-16", "/usr/bin/wasm-ld-19"];

/// Wraps a core module, as the guest crate has it built, into a component.
pub fn componentize(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    let encode = || wit_component::ComponentEncoder::default().validate(true).module(module)?.encode();
    encode().map_err(|e| BuildError::Module { name: "it".to_owned(), why: format!("{e:#}") })
}

/// Builds the plugin whose crate stands in `dir`, and gives the path of the component, in the crate's target folder.
pub fn build(dir: &Path) -> Result<PathBuf, BuildError> {
    let workspace = Workspace::read(dir)?;
    let modules = workspace.build(dir)?;
    let [(name, module)] = modules.as_slice() else {
        return Err(BuildError::Count { dir: dir.to_owned(), count: modules.len() });
    };
    write_component(&workspace.target_directory.join("plugins"), name, module)
}

/// Builds every plugin of the workspace in `dir` into `out`, each as `<name>.wasm`.
pub fn build_workspace(dir: &Path, out: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let modules = Workspace::read(dir)?.build(dir)?;
    modules.iter().map(|(name, module)| write_component(out, name, module)).collect()
}

fn write_component(out: &Path, name: &str, module: &Path) -> Result<PathBuf, BuildError> {
    let bytes = fs::read(module).map_err(|e| BuildError::file(module, e))?;
    let component = componentize(&bytes).map_err(|e| match e {
        BuildError::Module { why, .. } => BuildError::Module { name: name.to_owned(), why },
        other => other,
    })?;
    put_component(out, name, &component)
}

/// What `cargo metadata` says.
#[derive(Deserialize)]
struct Workspace {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

/// A line of cargo's `--message-format json`.
#[derive(Deserialize)]
struct Message {
    reason: String,
    target: Option<Target>,
    #[serde(default)]
    filenames: Vec<PathBuf>,
}

impl Workspace {
    fn read(dir: &Path) -> Result<Self, BuildError> {
        let mut cargo = Command::new("cargo");
        cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
        serde_json::from_slice(&output(&mut cargo, dir, NEED)?).map_err(BuildError::Answer)
    }

    /// The plugins' names and core modules.
    fn build(&self, dir: &Path) -> Result<Vec<(String, PathBuf)>, BuildError> {
        let mut cargo = self.cargo(dir)?;
        cargo.args(["build", "--release", "--target", TARGET, "--message-format", "json-render-diagnostics"]);
        let said = output(&mut cargo, dir, NEED)?;
        let names: BTreeMap<&str, &str> =
            self.packages.iter().flat_map(|p| p.targets.iter().map(|t| (t.name.as_str(), p.name.as_str()))).collect();
        let mut modules = Vec::new();
        for line in said.split(|b| *b == b'\n').filter(|l| l.starts_with(b"{")) {
            let message: Message = serde_json::from_slice(line).map_err(BuildError::Answer)?;
            let Some(target) = message.target.filter(|_| message.reason == "compiler-artifact") else { continue };
            if !target.crate_types.iter().any(|t| t == "cdylib") {
                continue;
            }
            if let (Some(name), Some(module)) = (
                names.get(target.name.as_str()),
                message.filenames.into_iter().find(|f| f.extension() == Some(OsStr::new("wasm"))),
            ) {
                modules.push(((*name).to_owned(), module));
            }
        }
        Ok(modules)
    }

    fn cargo(&self, dir: &Path) -> Result<Command, BuildError> {
        if has_target(dir) {
            return Ok(Command::new("cargo"));
        }
        let linker = DEBIAN_LINKERS.into_iter().find(|l| Path::new(l).exists()).ok_or(BuildError::NoToolchain)?;
        let whole = ["/usr/bin/cargo", "/usr/bin/rustc", DEBIAN_SOURCE].into_iter().all(|p| Path::new(p).exists());
        if !whole {
            return Err(BuildError::NoToolchain);
        }
        let mut cargo = Command::new("/usr/bin/cargo");
        for inherited in ["RUSTUP_TOOLCHAIN", "RUSTC", "CARGO", "CARGO_TARGET_DIR"] {
            cargo.env_remove(inherited);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(PathBuf::from("/usr/bin")).chain(std::env::split_paths(&path)));
        cargo
            .env("PATH", path.unwrap_or_else(|_| "/usr/bin:/bin".into()))
            .env("RUSTC_BOOTSTRAP", "1")
            .env("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort")
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker)
            .env("CARGO_TARGET_DIR", self.target_directory.join("debian"));
        Ok(cargo)
    }
}

/// Whether the Rust that comes first has the standard library for the target.
fn has_target(dir: &Path) -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]).current_dir(dir).stderr(Stdio::null());
    let Ok(answer) = rustc.output() else { return false };
    let libdir = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
    answer.status.success() && fs::read_dir(libdir).is_ok_and(|mut files| files.next().is_some())
}
