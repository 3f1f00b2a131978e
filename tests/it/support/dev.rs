//! Real processes of the binary: `lapse dev` and `lapse demo-shop`, started, killed and started again.
//!
//! Each listens on a free port and works in a folder of the test. Dropping one kills it.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc,
    time::{Duration, Instant},
};

use serde_json::Value;

pub const LAPSE: &str = env!("CARGO_BIN_EXE_lapse");

/// How long a process may take to say that it is ready, or to end when it is told to. Far more than it needs.
const PATIENCE: Duration = Duration::from_mins(2);

/// The binary, with nothing of the caller's own settings.
pub fn lapse() -> Command {
    let mut command = Command::new(LAPSE);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LAPSE_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end, in `folder`.
pub fn run(folder: &Path, args: &[&str]) -> Output {
    lapse().args(args).current_dir(folder).stdin(Stdio::null()).output().unwrap()
}

/// A process that says on its first line, as JSON, where it can be reached.
struct Process {
    child: Child,
    said: Value,
}

impl Process {
    fn start(mut command: Command, log: &Path) -> Self {
        let log_file = File::options().create(true).append(true).open(log).unwrap();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::from(log_file)).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                // Nobody listens after the first; the pipe is still read, so that the process never waits for it.
                let _ = line.send(text);
            }
        });
        if let Ok(text) = lines.recv_timeout(PATIENCE) {
            return Self { child, said: serde_json::from_str(&text).unwrap() };
        }
        let _ = child.kill();
        let _ = child.wait();
        panic!("the process did not become ready; its log:\n{}", fs::read_to_string(log).unwrap_or_default());
    }

    fn said(&self, name: &str) -> String {
        self.said[name].as_str().unwrap_or_else(|| panic!("no {name} in {}", self.said)).to_owned()
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn terminate(&mut self) -> ExitStatus {
        let pid = self.child.id().cast_signed();
        // SAFETY: it is our own child, and has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < PATIENCE, "the process does not end on SIGTERM");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// How `lapse dev` is to be started.
#[derive(Clone, Debug, Default)]
pub struct DevOptions {
    /// A folder of the test; the data folder `lapse-data` and the log `dev.log` stand in it.
    pub folder: PathBuf,
    /// A shop that runs by itself, so that it outlives the server. Without it the server starts its own.
    pub shop_url: Option<String>,
    /// Settings, such as `("LAPSE_DISPATCH__LEASE", "2s")`.
    pub env: Vec<(String, String)>,
    /// More arguments.
    pub args: Vec<String>,
}

/// A running `lapse dev`.
pub struct Dev {
    process: Process,
    options: DevOptions,
    pub url: String,
    pub token: String,
    /// The demo shop's address; empty with `--no-demo`.
    pub shop: String,
}

impl Dev {
    pub fn start(options: DevOptions) -> Self {
        let mut command = lapse();
        command.current_dir(&options.folder).args(["dev", "--json", "--listen", "127.0.0.1:0"]);
        match &options.shop_url {
            Some(url) => command.args(["--shop-url", url]),
            None if options.args.iter().any(|a| a == "--no-demo") => &mut command,
            None => command.args(["--demo-shop", "127.0.0.1:0"]),
        };
        command.args(&options.args).envs(options.env.iter().cloned());
        let process = Process::start(command, &options.folder.join("dev.log"));
        let (url, token) = (process.said("url"), process.said("token"));
        let shop = process.said["demo_shop"].as_str().unwrap_or_default().to_owned();
        Self { process, options, url, token, shop }
    }

    /// Kills it as a power cut would, at this moment.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Kills it if it still runs, and starts it again on the same data. Its address changes; its token does not.
    pub fn restart(&mut self) {
        self.kill();
        let next = Self::start(self.options.clone());
        *self = next;
    }

    /// Tells it to stop, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate()
    }

    pub fn folder(&self) -> &Path {
        &self.options.folder
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.options.folder.join("dev.log")).unwrap_or_default()
    }

    /// Runs a command against it.
    pub fn run(&self, args: &[&str]) -> Output {
        self.run_with_input(args, b"")
    }

    pub fn run_with_input(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = lapse()
            .args(args)
            .current_dir(&self.options.folder)
            .env("LAPSE_SERVER_URL", &self.url)
            .env("LAPSE_TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// Runs a command that must succeed, and reads its JSON.
    pub fn json(&self, args: &[&str]) -> Value {
        let output = self.run(&[args, &["--json"]].concat());
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// A running `lapse demo-shop`.
pub struct ShopProcess {
    _process: Process,
    pub url: String,
}

impl ShopProcess {
    /// On a free port; its journal and log stand in `folder`.
    pub fn start(folder: &Path) -> Self {
        let mut command = lapse();
        command.args(["demo-shop", "--json", "--listen", "127.0.0.1:0", "--journal"]).arg(folder.join("shop.journal"));
        let process = Process::start(command, &folder.join("shop.log"));
        Self { url: process.said("demo_shop"), _process: process }
    }
}

/// A running `lapse serve`.
pub struct ServeProcess {
    process: Process,
    pub url: String,
}

impl ServeProcess {
    /// On a free port; works in `folder`, where its log stands.
    pub fn start(folder: &Path, log: &str, env: &[(String, String)]) -> Self {
        let mut command = lapse();
        command.args(["serve", "--json", "--listen", "127.0.0.1:0"]).current_dir(folder).envs(env.iter().cloned());
        let process = Process::start(command, &folder.join(log));
        Self { url: process.said("url"), process }
    }

    /// Kills it as a power cut would, at this moment.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Holds it still, as a machine that is suspended, or lets it go on.
    pub fn freeze(&self, still: bool) {
        let pid = self.process.child.id().cast_signed();
        // SAFETY: it is our own child, and has not been waited for.
        assert_eq!(unsafe { libc::kill(pid, if still { libc::SIGSTOP } else { libc::SIGCONT }) }, 0);
    }

    /// Tells it to stop, and waits until it has.
    pub fn terminate(&mut self) -> ExitStatus {
        self.process.terminate()
    }
}

/// Asks until it is so. A test that waits says for what, and fails when it never comes.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "never came: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
