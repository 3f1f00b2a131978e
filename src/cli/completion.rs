//! `lapse completion`.

use clap::Args;
use clap_complete::Shell;

use super::{Result, output::Out};

#[derive(Args)]
#[command(after_help = "Examples:\n  \
    lapse completion bash > ~/.local/share/bash-completion/completions/lapse\n  \
    lapse completion zsh > ~/.zfunc/_lapse\n  \
    lapse completion fish > ~/.config/fish/completions/lapse.fish")]
pub struct Completion {
    /// The shell
    shell: Shell,
}

impl Completion {
    pub fn run(self, out: &Out) -> Result {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "lapse", &mut script);
        out.line(String::from_utf8_lossy(&script).trim_end())
    }
}
