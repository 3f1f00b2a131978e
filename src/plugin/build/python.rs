//! From a Python project to a component: componentize-py puts it and an interpreter (CPython) into one.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use super::{BuildError, above, output, put_component, put_wit};

const NEED: &str = "plugins in Python need Python 3.10 or later, with venv and pip";
/// The version that projects without a `requirements.txt` are built with.
const COMPONENTIZE: &str = "componentize-py==0.25.0";
const PROGRAM: &str = ".venv/bin/componentize-py";

#[derive(Deserialize)]
struct Project {
    project: Named,
    tool: Tools,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Tools {
    lapse: Lapse,
}

#[derive(Deserialize)]
struct Lapse {
    /// The module that has `WitWorld`.
    #[serde(default = "module")]
    module: String,
}

fn module() -> String {
    "lapse_plugin".to_owned()
}

impl Project {
    fn read(dir: &Path) -> Result<Self, BuildError> {
        let path = dir.join("pyproject.toml");
        let text = fs::read_to_string(&path).map_err(|e| BuildError::file(&path, e))?;
        toml::from_str(&text).map_err(|e| BuildError::Project { path, why: e.to_string() })
    }
}

/// Whether the folder holds a plugin: a project with a table `[tool.lapse]`.
pub fn is_plugin(dir: &Path) -> bool {
    dir.join("pyproject.toml").is_file() && Project::read(dir).is_ok()
}

/// What its component is called.
pub fn name(dir: &Path) -> Result<String, BuildError> {
    Ok(Project::read(dir)?.project.name)
}

pub fn build(dir: &Path, out: &Path) -> Result<PathBuf, BuildError> {
    let Project { project, tool } = Project::read(dir)?;
    let program = install(dir)?;
    let work = dir.join("dist").join("build");
    put_wit(&work.join("wit"))?;
    let component = work.join("plugin.wasm");
    let mut componentize = Command::new(program);
    componentize.args(["-d", "dist/build/wit", "-w", "plugin", "componentize", &tool.lapse.module]).args([
        "-p",
        ".",
        "-o",
        "dist/build/plugin.wasm",
    ]);
    output(&mut componentize, dir, NEED)?;
    let bytes = fs::read(&component).map_err(|e| BuildError::file(&component, e))?;
    put_component(out, &project.name, &bytes)
}

/// The componentize-py of the nearest virtual environment, which is made where `requirements.txt` stands if there is
/// none.
fn install(dir: &Path) -> Result<PathBuf, BuildError> {
    if let Some(found) = above(dir, PROGRAM) {
        return Ok(found.join(PROGRAM));
    }
    let root = above(dir, "requirements.txt");
    let has_list = root.is_some();
    let root = root.unwrap_or_else(|| dir.to_owned());
    output(Command::new("python3").args(["-m", "venv", ".venv"]), &root, NEED)?;
    let mut pip = Command::new(root.join(".venv/bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]);
    if has_list {
        pip.args(["-r", "requirements.txt"])
    } else {
        pip.arg(COMPONENTIZE)
    };
    output(&mut pip, &root, NEED)?;
    Ok(root.join(PROGRAM))
}
