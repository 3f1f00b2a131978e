//! `lapse config`.

use clap::Args;

use super::{
    Result,
    output::{Out, Table},
    settings::Settings,
};

#[derive(Args)]
#[command(
    about = "Show the settings in force, and where each comes from",
    long_about = "Shows every setting in force and where its value comes from: the default, the --config file, the \
                  environment (LAPSE_SECTION__NAME), or a flag. The later one wins.",
    after_help = "Examples:\n  \
        lapse config\n  \
        LAPSE_PLUGIN__CPU=2s lapse config --config lapse.toml\n  \
        lapse config --json | jq '.[] | select(.source != \"default\")'"
)]
pub struct Config {
    #[command(flatten)]
    settings: Settings,
}

impl Config {
    pub fn run(self, out: &Out) -> Result {
        let loaded = self.settings.load()?;
        out.show(&loaded.settings, |settings| {
            let mut table = Table::new(["setting", "value", "source"]);
            for s in settings {
                let value = s.value.as_str().map_or_else(|| s.value.to_string(), str::to_owned);
                table.row([s.setting.clone(), value, s.source.clone()]);
            }
            table.to_string()
        })
    }
}
