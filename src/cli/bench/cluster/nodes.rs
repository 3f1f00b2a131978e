//! Nodes of this binary, and a demo shop for their compensations: on free ports of the loopback, gone with their value.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::{
    client::Client,
    demo_shop::{UNCHECKED, example_types},
};

use super::{
    super::super::{Result, error::Error},
    usage::Watched,
};

/// How long a process may take to say where it listens.
const STARTS_WITHIN: Duration = Duration::from_mins(1);
/// How long it may take to drain.
const STOPS_WITHIN: Duration = Duration::from_secs(30);
/// How long a type may take to be live on every node.
const LIVE_WITHIN: Duration = Duration::from_secs(30);

struct Process {
    child: Child,
    url: String,
}

pub struct Nodes {
    running: Vec<Process>,
    shop: Process,
    folder: PathBuf,
    env: Vec<(&'static str, String)>,
    token: String,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // Each process is killed when its handle goes; what they have written to may go at once.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Nodes {
    pub async fn start(database: &str, nats: &str, count: u16) -> Result<Self> {
        let secret = || format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>());
        let folder = std::env::temp_dir().join(format!("lapse-bench-{:016x}", rand::random::<u64>()));
        std::fs::create_dir(&folder).map_err(anyhow::Error::from)?;
        let token = secret();
        let env = vec![
            ("LAPSE_BOOTSTRAP_TOKEN", token.clone()),
            ("LAPSE_STORE__KEY", secret()),
            ("LAPSE_STORE__DATABASE", database.to_owned()),
            ("LAPSE_NATS__URL", nats.to_owned()),
            ("LAPSE_LOG__FILTER", "warn".to_owned()),
        ];
        let shop =
            start(&folder, "shop", &["demo-shop", "--json", "--listen", "127.0.0.1:0"], &[], "demo_shop").await?;
        let mut nodes = Self { running: Vec::new(), shop, folder, env, token };
        for nth in 0..count {
            let node = nodes.node(nth.into()).await?;
            nodes.running.push(node);
        }
        Ok(nodes)
    }

    async fn node(&self, nth: usize) -> Result<Process> {
        let mut env = self.env.clone();
        env.push(("LAPSE_STORE__DATA", format!("node-{nth}")));
        let name = format!("node-{nth}");
        start(&self.folder, &name, &["serve", "--json", "--listen", "127.0.0.1:0"], &env, "url").await
    }

    /// Makes the load's type, and waits until it is live on every node.
    pub async fn put_type(&self, component: Vec<u8>) -> Result {
        let client = self.client(0);
        let plugin: Value = client.upload("v1/plugins", component).await?;
        let authority = self.shop.url.trim_start_matches("http://");
        let types = example_types(&self.shop.url, authority);
        let example = types.iter().find(|t| t.name == UNCHECKED);
        let example = example.unwrap_or_else(|| unreachable!("the shop has this type"));
        let body = json!({ "digest": plugin["digest"], "config": example.config, "grants": example.grants });
        let path = format!("v1/types/{UNCHECKED}");
        let _put: Value = client.put(&path, &body).await?;
        let began = std::time::Instant::now();
        for nth in 0..self.running.len() {
            while self.client(nth).get::<Value>(&path, &[]).await.is_err() {
                if began.elapsed() > LIVE_WITHIN {
                    return Err(Error::Other(anyhow::anyhow!("the type does not come to node {nth}")));
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    pub fn client(&self, nth: usize) -> Client {
        Client::new(&self.running[nth].url, Some(self.token.clone()))
            .unwrap_or_else(|error| unreachable!("the node says where it listens: {error}"))
    }

    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// As a power cut would.
    pub async fn kill(&mut self, nth: usize) -> Result {
        self.running[nth].child.kill().await.map_err(|e| Error::Other(e.into()))
    }

    pub async fn restart(&mut self, nth: usize) -> Result {
        self.running[nth] = self.node(nth).await?;
        Ok(())
    }

    pub fn watched(&self) -> Vec<Watched> {
        let named =
            |(nth, node): (usize, &Process)| Some(Watched { name: format!("node {nth}"), pid: node.child.id()? });
        self.running.iter().enumerate().filter_map(named).collect()
    }

    /// What triggered the expiries since each node has started.
    pub async fn triggers(&self) -> BTreeMap<String, u64> {
        let mut triggers = BTreeMap::new();
        for nth in 0..self.running.len() {
            let text = self.client(nth).text("metrics").await.unwrap_or_default();
            for line in text.lines().filter(|line| line.starts_with("lapse_timer_fired_total{")) {
                let trigger = line.split_once("trigger=\"").and_then(|(_, rest)| rest.split_once('"'));
                let count = line.rsplit_once(' ').and_then(|(_, count)| count.parse::<u64>().ok());
                if let (Some((trigger, _)), Some(count)) = (trigger, count) {
                    *triggers.entry(trigger.to_owned()).or_default() += count;
                }
            }
        }
        triggers
    }

    /// Tells all to stop, and waits for a while.
    pub async fn stop(mut self) {
        for node in &mut self.running {
            if let Some(pid) = node.child.id().and_then(|pid| i32::try_from(pid).ok()) {
                // SAFETY: a signal to a process of our own, which has not been waited for.
                unsafe { libc::kill(pid, libc::SIGTERM) };
            }
        }
        for node in &mut self.running {
            let _ended = tokio::time::timeout(STOPS_WITHIN, node.child.wait()).await;
        }
    }
}

/// Starts this binary with these arguments, and waits for its first line.
async fn start(folder: &Path, name: &str, args: &[&str], env: &[(&str, String)], said: &str) -> Result<Process> {
    let failed = |why: String| Error::Other(anyhow::anyhow!("{name} does not start: {why}"));
    let log = folder.join(format!("{name}.log"));
    let log_file = std::fs::File::create(&log).map_err(|e| failed(e.to_string()))?;
    let mut command = Command::new(std::env::current_exe().map_err(|e| failed(e.to_string()))?);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("LAPSE_")) {
        command.env_remove(name);
    }
    command.args(args).current_dir(folder).envs(env.iter().map(|(name, value)| (*name, value.as_str())));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log_file).kill_on_drop(true);
    let mut child = command.spawn().map_err(|e| failed(e.to_string()))?;
    let stdout = child.stdout.take().unwrap_or_else(|| unreachable!("it is piped"));
    let mut lines = BufReader::new(stdout).lines();
    let first = tokio::time::timeout(STARTS_WITHIN, lines.next_line()).await;
    let Ok(Ok(Some(line))) = first else {
        return Err(failed(std::fs::read_to_string(log).unwrap_or_default()));
    };
    // Read on, so that it never waits for its output.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let line: Value = serde_json::from_str(&line).map_err(|e| failed(e.to_string()))?;
    match line[said].as_str() {
        Some(url) => Ok(Process { child, url: url.to_owned() }),
        None => Err(failed(format!("it does not say where it listens: {line}"))),
    }
}
