//! Lists what the binary carries: the built console (`src/console.rs`; one that was not built is an empty list), and the
//! interface, guest SDKs and templates that new plugins are made from (`src/plugin/build/files.rs`).

use std::{
    env,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = root.join("web").join("dist");
    // A folder that is missing would have cargo run this, and compile everything, every time.
    fs::create_dir_all(&dist)?;
    println!("cargo:rerun-if-changed={}", dist.display());
    println!("cargo:rerun-if-changed=build.rs");
    let mut files = Vec::new();
    list(&dist, &mut files)?;
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(&dist).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let line = format!("    ({:?}, include_bytes!({:?})),\n", format!("/{name}"), file.display().to_string());
        table.push_str(&line);
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("console_files.rs"), table)?;
    fs::write(out.join("guest_files.rs"), guest_files(&root)?)
}

/// Files and folders.
const GUESTS: [&str; 9] = [
    "plugins/Cargo.toml",
    "plugins/sdk/Cargo.toml",
    "plugins/sdk/README.md",
    "plugins/sdk/src",
    "plugins/sdk-ts/README.md",
    "plugins/sdk-ts/package.json",
    "plugins/sdk-ts/src",
    "plugins/templates",
    "wit",
];

fn guest_files(root: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for path in GUESTS.map(|path| root.join(path)) {
        println!("cargo:rerun-if-changed={}", path.display());
        if path.is_dir() { list(&path, &mut files)? } else { files.push(path) }
    }
    files.sort();
    let mut table = String::from("&[\n");
    for file in &files {
        let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
        let _ = writeln!(table, "    ({name:?}, include_bytes!({:?})),", file.display().to_string());
    }
    table.push(']');
    Ok(table)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
