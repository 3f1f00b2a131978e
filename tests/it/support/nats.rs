//! Private nats-servers with JetStream: on loopback, on free ports, in temporary folders, gone with their value.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use async_nats::jetstream;
use tempfile::TempDir;

/// How long a server may take to be there. Far more than it takes, on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(30);
/// A port that was free a moment ago may be another's by now: start with others.
const TRIES: usize = 3;

pub struct Nats {
    child: Option<Child>,
    dir: TempDir,
    address: SocketAddr,
}

/// CPU time and memory of a server, as the kernel counts them.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu: Duration,
    pub memory_bytes: u64,
}

/// The server's program: what `scripts/setup.sh nats` installed, or what `NATS_SERVER` names.
fn program() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join(".tools/nats-server");
    let program = std::env::var_os("NATS_SERVER").map_or(tools, PathBuf::from);
    assert!(program.exists(), "{} is missing; `scripts/setup.sh nats` installs it", program.display());
    program
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All are taken before any is let go, or one might come twice.
    let listeners = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    listeners.map(|l| l.local_addr().unwrap().port())
}

impl Nats {
    pub async fn start() -> Self {
        Self::with("").await
    }

    /// With more lines in its configuration.
    pub async fn with(more: &str) -> Self {
        for _ in 0..TRIES {
            let [port] = free_ports();
            let mut server = Self::prepare(port, "alone", more);
            if server.try_run().await {
                return server;
            }
        }
        panic!("nats-server does not start");
    }

    fn prepare(port: u16, name: &str, more: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let store = dir.path().join("jetstream");
        let log = dir.path().join("log");
        let config = format!(
            "host: 127.0.0.1\nport: {port}\nserver_name: {name}\nlog_file: \"{}\"\n\
             jetstream {{ store_dir: \"{}\", max_mem: 64MB, max_file: 256MB }}\n{more}\n",
            log.display(),
            store.display()
        );
        std::fs::write(dir.path().join("config"), config).unwrap();
        Self { child: None, dir, address: (Ipv4Addr::LOCALHOST, port).into() }
    }

    fn spawn(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let mut command = Command::new(program());
        command.arg("--config").arg(self.dir.path().join("config"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
    }

    async fn try_run(&mut self) -> bool {
        self.spawn();
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                self.child = None;
                return false;
            }
            if tokio::net::TcpStream::connect(self.address).await.is_ok() {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        false
    }

    /// Starts it again where it was, with what it stored.
    pub async fn run(&mut self) {
        assert!(self.try_run().await, "nats-server does not start again; its log: {}", self.log());
    }

    pub fn url(&self) -> String {
        format!("nats://{}", self.address)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(&child, libc::SIGTERM);
            child.wait().unwrap();
        }
    }

    /// Removes all that it stored, while it is down.
    pub fn wipe(&self) {
        assert!(self.child.is_none(), "it still runs");
        std::fs::remove_dir_all(self.dir.path().join("jetstream")).unwrap();
    }

    /// A client of its own, without the product.
    pub async fn jetstream(&self) -> jetstream::Context {
        client(&self.url()).await
    }

    pub fn usage(&self) -> Usage {
        let pid = self.child.as_ref().unwrap().id();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        // The name in brackets may hold spaces; utime and stime are the 12th and 13th fields after it.
        let fields: Vec<u64> =
            stat.rsplit_once(')').unwrap().1.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect();
        let ticks = fields[11] + fields[12];
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let rss = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
        let kib: u64 = rss.split_whitespace().next().unwrap().parse().unwrap();
        // The kernel's unit for user space is 1/100 s.
        Usage { cpu: Duration::from_millis(ticks * 10), memory_bytes: kib * 1024 }
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

#[expect(unsafe_code, reason = "the standard library sends no signal but SIGKILL")]
fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: kill() only takes numbers; the child is not waited for yet, so its number is still its own.
    let sent = unsafe { libc::kill(child.id().try_into().unwrap(), signal) };
    assert_eq!(sent, 0);
}

async fn client(urls: &str) -> jetstream::Context {
    let client = async_nats::ConnectOptions::new()
        .retry_on_initial_connect()
        .connect(urls.split(',').map(str::to_owned).collect::<Vec<_>>())
        .await
        .unwrap();
    jetstream::new(client)
}

/// Three servers that replicate.
pub struct Cluster {
    pub servers: Vec<Nats>,
}

impl Cluster {
    pub async fn start() -> Self {
        for _ in 0..TRIES {
            if let Some(cluster) = Self::try_start().await {
                return cluster;
            }
        }
        panic!("no cluster of nats-servers comes together");
    }

    async fn try_start() -> Option<Self> {
        let ports: [u16; 6] = free_ports();
        let (clients, routes) = ports.split_at(3);
        let all: Vec<String> = routes.iter().map(|p| format!("\"nats://127.0.0.1:{p}\"")).collect();
        let mut servers = Vec::new();
        for (i, (client, route)) in clients.iter().zip(routes).enumerate() {
            let more =
                format!("cluster {{ name: trio, host: 127.0.0.1, port: {route}, routes: [{}] }}", all.join(", "));
            servers.push(Nats::prepare(*client, &format!("s{i}"), &more));
        }
        for server in &mut servers {
            if !server.try_run().await {
                return None;
            }
        }
        let cluster = Self { servers };
        // Until they have chosen a leader, nothing can be created.
        let context = cluster.jetstream().await;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if context.query_account().await.is_ok() {
                return Some(cluster);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        None
    }

    pub fn urls(&self) -> String {
        self.servers.iter().map(Nats::url).collect::<Vec<_>>().join(",")
    }

    pub async fn jetstream(&self) -> jetstream::Context {
        client(&self.urls()).await
    }

    /// Which server leads `stream`.
    pub async fn leader(&self, stream: &str) -> usize {
        let context = self.jetstream().await;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Ok(stream) = context.get_stream(stream).await
                && let Some(leader) = stream.cached_info().cluster.as_ref().and_then(|c| c.leader.clone())
            {
                return leader.trim_start_matches('s').parse().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{stream} has no leader");
    }
}
