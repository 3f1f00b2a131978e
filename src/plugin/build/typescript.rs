//! From a TypeScript project to a component: npm has its packages, esbuild makes one file of it, and jco puts that into
//! an interpreter (QuickJS), which is the component.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use serde::Deserialize;

use super::{BuildError, above, output, put_component, put_wit};

const NEED: &str = "plugins in TypeScript need Node.js 20.19 or later, with npm: https://nodejs.org";
/// What a plugin's project depends on.
const SDK: &str = "@lapse/plugin";

#[derive(Deserialize)]
struct Package {
    name: String,
    #[serde(default = "entry")]
    main: String,
    #[serde(default)]
    dependencies: serde_json::Map<String, serde_json::Value>,
}

fn entry() -> String {
    "src/plugin.ts".to_owned()
}

impl Package {
    fn read(dir: &Path) -> Result<Self, BuildError> {
        let path = dir.join("package.json");
        let text = fs::read(&path).map_err(|e| BuildError::file(&path, e))?;
        serde_json::from_slice(&text).map_err(|e| BuildError::Project { path, why: e.to_string() })
    }

    /// Without the scope that it may have.
    fn name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// Whether the folder holds a plugin, rather than anything else that has a `package.json`.
pub fn is_plugin(dir: &Path) -> bool {
    dir.join("package.json").is_file() && Package::read(dir).is_ok_and(|p| p.dependencies.contains_key(SDK))
}

/// What its component is called.
pub fn name(dir: &Path) -> Result<String, BuildError> {
    Ok(Package::read(dir)?.name().to_owned())
}

pub fn build(dir: &Path, out: &Path) -> Result<PathBuf, BuildError> {
    let package = Package::read(dir)?;
    install(dir)?;
    let work = dir.join("dist").join("build");
    put_wit(&work.join("wit"))?;
    let entry = if package.main.starts_with('.') { package.main.clone() } else { format!("./{}", package.main) };
    let mut esbuild = tool(dir, "esbuild", "esbuild")?;
    esbuild
        .args([&*entry, "--bundle", "--format=esm", "--target=es2022", "--log-level=warning"])
        // The SDK reaches the host by its imports, rather than a test's.
        .args(["--conditions=lapse", "--external:lapse:*", "--outfile=dist/build/plugin.js"]);
    output(&mut esbuild, dir, NEED)?;
    let mut jco = tool(dir, "jco", "@bytecodealliance/jco")?;
    jco.args(["componentize", "plugin.js", "--wit", "wit", "--world-name", "plugin", "--out", "plugin.wasm"]).args([
        "--backend",
        "qjs",
        "--backend-qjs-disable-async",
    ]);
    output(&mut jco, &work, NEED)?;
    let component = work.join("plugin.wasm");
    let bytes = fs::read(&component).map_err(|e| BuildError::file(&component, e))?;
    put_component(out, package.name(), &bytes)
}

/// Has npm install what the lock file says, unless it has. (In a workspace that file stands further up.) Packages' own
/// scripts are not run.
fn install(dir: &Path) -> Result<(), BuildError> {
    const LOCK: &str = "package-lock.json";
    let (root, action) = match above(dir, LOCK) {
        Some(root) => (root, "ci"),
        None => (dir.to_owned(), "install"),
    };
    let changed = |file: PathBuf| fs::metadata(file).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    // npm writes it last.
    let installed = root.join("node_modules").join(".package-lock.json");
    if installed.is_file() && changed(installed) >= changed(root.join(LOCK)) {
        return Ok(());
    }
    let mut npm = Command::new("npm");
    npm.args([action, "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    output(&mut npm, &root, NEED).map(drop)
}

fn tool(dir: &Path, name: &str, package: &'static str) -> Result<Command, BuildError> {
    let path = Path::new("node_modules").join(".bin").join(name);
    let found = dir.ancestors().map(|a| a.join(&path)).find(|p| p.exists());
    found.map(Command::new).ok_or_else(|| BuildError::NoTool { dir: dir.to_owned(), tool: package })
}
