//! Builds every plugin in `plugins/` into `plugins/dist/`.

use std::path::Path;

fn main() -> anyhow::Result<()> {
    lapse::plugin::build::build_workspace(Path::new("plugins"), Path::new("plugins/dist"))?;
    Ok(())
}
