//! Lists the built console, for `src/console.rs` to embed. A console that was not built is an empty list.

use std::{
    env, fs, io,
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
    fs::write(out.join("console_files.rs"), table)
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { list(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
