//! The commands. Each group is a file: its arguments, and what is done with them.
//!
//! What is asked for goes to standard output, as a table or, with `--json`, as JSON; progress, hints and logs go to
//! standard error. Exit codes: 0 done, 1 failed, 2 not a valid call.

mod bench;
mod compensation;
mod completion;
mod config;
mod connect;
mod datasource;
mod demo_shop;
mod dev;
mod doctor;
mod error;
mod generate;
mod key;
mod migrate;
mod openapi;
mod output;
mod pause;
mod plugin;
mod secret;
mod serve;
mod settings;
mod signals;
mod timer;
mod types;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser, Subcommand};

use self::{error::Error, output::Out};

type Result<T = ()> = std::result::Result<T, Error>;

#[derive(Parser)]
#[command(
    name = "lapse",
    bin_name = "lapse",
    version,
    about = "Lapse: exact timers, decided by sandboxed plugins",
    long_about = "Lapse keeps timers (\"close order A17 if it is still unpaid at 12:30\"), and at the due time runs the \
                  plugin of the timer's type: a sandboxed WebAssembly component that decides what happens.",
    after_help = "Examples:\n  \
                  lapse dev                                   start a server to try Lapse on\n  \
                  lapse timer list --state scheduled          look at what is to come\n  \
                  lapse plugin push my.wasm --type my-type    make a timer type of a plugin\n\n\
                  `lapse COMMAND --help` has the examples of each command.",
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 110
)]
struct Cli {
    /// Print JSON instead of tables
    #[arg(long, global = true, display_order = 900)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Dev(dev::Dev),
    Serve(serve::Serve),
    /// Bring the database to this version, or back
    #[command(subcommand)]
    Migrate(migrate::Migrate),
    /// Build, check and upload plugins
    #[command(subcommand)]
    Plugin(plugin::Plugin),
    /// Show timer types, and write typed helpers for them
    #[command(subcommand)]
    Type(types::Types),
    /// Register timers, look at them and act on them
    #[command(subcommand)]
    Timer(timer::Timer),
    /// Look at compensations, and send dead ones back
    #[command(subcommand)]
    Compensation(compensation::Compensation),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Pauses(pause::Pauses),
    /// Set, list and delete secrets that plugins may use
    #[command(subcommand)]
    Secret(secret::Secret),
    /// Set, check, list and delete databases that plugins may use
    #[command(subcommand, name = "datasource")]
    DataSource(datasource::DataSource),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(key::Key),
    Config(config::Config),
    Doctor(doctor::Doctor),
    /// Measure a running server
    #[command(subcommand)]
    Bench(bench::Bench),
    Openapi(openapi::Openapi),
    DemoShop(demo_shop::DemoShop),
    /// Print the completion script of a shell
    Completion(completion::Completion),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// The whole command line, for completion and for tests of its help.
pub fn command() -> clap::Command {
    Cli::command()
}

fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        // Help and version go to standard output and are no failures.
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let out = Out::new(cli.json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return Error::from(error).report(&out),
    };
    let result = runtime.block_on(dispatch(cli.command, &out));
    // A call that a command gave up on must not hold its end up.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.report(&out),
    }
}

async fn dispatch(command: Command, out: &Out) -> Result {
    match command {
        Command::Dev(dev) => dev.run(out).await,
        Command::Serve(serve) => serve.run(out).await,
        Command::Migrate(migrate) => migrate.run(out).await,
        Command::Plugin(plugin) => plugin.run(out).await,
        Command::Type(types) => types.run(out).await,
        Command::Timer(timer) => timer.run(out).await,
        Command::Compensation(compensation) => compensation.run(out).await,
        Command::Pause(pause) => pause.run(out).await,
        Command::Resume(resume) => resume.run(out).await,
        Command::Pauses(pauses) => pauses.run(out).await,
        Command::Secret(secret) => secret.run(out).await,
        Command::DataSource(source) => source.run(out).await,
        Command::Key(key) => key.run(out).await,
        Command::Config(config) => config.run(out),
        Command::Doctor(doctor) => doctor.run(out).await,
        Command::Bench(bench) => bench.run(out).await,
        Command::Openapi(openapi) => openapi.run(out),
        Command::DemoShop(shop) => shop.run(out).await,
        Command::Completion(completion) => completion.run(out),
    }
}
