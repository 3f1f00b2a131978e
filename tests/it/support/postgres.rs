//! A private PostgreSQL for tests: in a temporary folder, on a free loopback port, with `fsync` on.
//!
//! One server serves all tests, each with a database of its own, over all the processes of a run. Each such process holds
//! a lock on one file for as long as it lives; a watcher stops the server and removes its folder once nobody holds it.
//! Tests that kill or restart a server start one of their own.

use std::{
    ffi::CString,
    fs::{self, File},
    io,
    net::{Ipv4Addr, TcpListener},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use lapse::store::postgres::PostgresParams;

use crate::store::chain;

/// How long a server may take to start.
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// Starts before giving up, since the free port that was found may be taken by the time it is used.
const STARTS: usize = 5;

/// Seconds for which nobody must have used the shared server before it is stopped: a run's next test may start late.
const SHARED_GRACE: &str = "10";
const OWN_GRACE: &str = "1";

/// The user that the server runs as where tests run as root, which it refuses.
const USER: &str = "postgres";

pub struct Server {
    root: PathBuf,
    port: u16,
    /// Held for the server's life, if it is one test's own.
    lock: Option<File>,
}

/// A database that goes with its test.
pub struct Database {
    pub url: String,
    port: u16,
    pub name: String,
    admin: Option<String>,
    server: Option<Server>,
}

/// A fresh database on the shared server.
pub async fn database() -> Database {
    static SHARED: OnceLock<u16> = OnceLock::new();
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let port = tokio::task::spawn_blocking(|| *SHARED.get_or_init(shared_port)).await.unwrap();
    let name = format!("test_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    let admin = url(port, "postgres");
    execute(&admin, &format!("DROP DATABASE IF EXISTS {name}")).await;
    execute(&admin, &format!("CREATE DATABASE {name}")).await;
    Database { url: url(port, &name), port, admin: Some(admin), name, server: None }
}

/// A database on a server of its own, which the test may kill and restart.
pub async fn own_server() -> Database {
    let server = tokio::task::spawn_blocking(Server::own).await.unwrap();
    Database {
        url: url(server.port, "postgres"),
        port: server.port,
        admin: None,
        name: "postgres".into(),
        server: Some(server),
    }
}

impl Database {
    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("a test of its own server asks for one")
    }

    pub fn params(&self) -> PostgresParams {
        PostgresParams::new(&self.url, chain())
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The same database through another port, such as a proxy's.
    pub fn url_at(&self, port: u16) -> String {
        url(port, &self.name)
    }

    /// Statements in one go, on a connection of their own.
    pub async fn execute(&self, sql: &str) {
        execute(&self.url, sql).await;
    }

    pub async fn client(&self) -> tokio_postgres::Client {
        client(&self.url).await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(admin) = self.admin.take() else { return };
        let statement = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // A runtime of its own: the test's is in the middle of something, or gone.
        let drop_it = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&admin, tokio_postgres::NoTls).await.map_err(io::Error::other)?;
                tokio::spawn(connection);
                client.batch_execute(&statement).await.map_err(io::Error::other)
            })
        };
        let dropped: io::Result<()> = std::thread::spawn(drop_it).join().unwrap_or(Ok(()));
        if let Err(error) = dropped
            && !std::thread::panicking()
        {
            panic!("a test's database could not be dropped: {error}");
        }
    }
}

impl Server {
    fn own() -> Self {
        let root = make_root();
        let lock_path = root.join("lock");
        let lock = File::create(&lock_path).unwrap();
        lock.lock_shared().unwrap();
        watch(&lock_path, OWN_GRACE, &root, None);
        let port = start(&root);
        Self { root, port, lock: Some(lock) }
    }

    /// From now on it takes connections over TLS only, with this certificate and key.
    pub fn only_tls(&self, certificate: &str, key: &str) {
        let data = self.root.join("data");
        let owner = fs::metadata(&data).unwrap();
        for (name, pem) in [("tls.pem", certificate), ("tls.key", key)] {
            let path = data.join(name);
            fs::write(&path, pem).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).unwrap();
        }
        let mut conf = fs::read_to_string(data.join("postgresql.auto.conf")).unwrap();
        conf.push_str("ssl = on\nssl_cert_file = 'tls.pem'\nssl_key_file = 'tls.key'\n");
        fs::write(data.join("postgresql.auto.conf"), conf).unwrap();
        fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\n").unwrap();
        self.stop();
        self.start();
    }

    /// Every process of the server is killed, as if the machine had lost its power.
    pub fn kill(&self) {
        let pid: i32 = self.postmaster().expect("the server runs");
        // SAFETY: sends a signal; the number is that of the server's own main process. Its children notice its death and
        // end, and the next start waits until they have.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        let until = Instant::now() + STARTS_WITHIN;
        // SAFETY: signal 0 only asks whether the process is there.
        while unsafe { libc::kill(pid, 0) } == 0 {
            assert!(Instant::now() < until, "the server outlived its kill");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Stops it as an operator would; connections are cut off.
    pub fn stop(&self) {
        assert!(pg_ctl(&self.root, &["-m", "fast", "-w", "stop"]), "the server does not stop");
    }

    /// Starts it again, on the same port.
    pub fn start(&self) {
        let until = Instant::now() + STARTS_WITHIN;
        while !pg_ctl(&self.root, &["-w", "-l", &log_path(&self.root), "start"]) {
            assert!(Instant::now() < until, "the server does not start again: {}", log(&self.root));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn postmaster(&self) -> Option<i32> {
        let file = fs::read_to_string(self.root.join("data/postmaster.pid")).ok()?;
        file.lines().next()?.trim().parse().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.lock.take().is_some() {
            pg_ctl(&self.root, &["-m", "immediate", "-w", "stop"]);
            // The watcher, which sees the lock free within a second, removes the folder.
        }
    }
}

/// The port of the server that all tests share; starts it if there is none.
fn shared_port() -> u16 {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    fs::create_dir_all(here).unwrap();
    let users = File::create(here.join("postgres.users")).unwrap();
    // Waits while a watcher stops the server before.
    users.lock_shared().unwrap();
    let starting = File::create(here.join("postgres.starting")).unwrap();
    starting.lock().unwrap();
    let ready = here.join("postgres.ready");
    let running = fs::read_to_string(&ready).ok().and_then(|text| text.trim().parse().ok());
    let answering = running.filter(|port| std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, *port)).is_ok());
    let port = answering.unwrap_or_else(|| {
        let root = make_root();
        watch(&here.join("postgres.users"), SHARED_GRACE, &root, Some(&ready));
        let port = start(&root);
        fs::write(&ready, port.to_string()).unwrap();
        port
    });
    drop(starting);
    // Held until the process ends, and let go by the system.
    std::mem::forget(users);
    port
}

/// Makes a database cluster. The first time it is kept, to be copied from then on.
fn init(root: &Path) {
    let here = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let version = programs().components().rev().nth(1).map(|c| c.as_os_str().to_owned()).unwrap_or_default();
    let kept = here.join(format!("postgres-{}", version.display()));
    fs::create_dir_all(here).unwrap();
    let making = File::create(here.join("postgres.making")).unwrap();
    making.lock().unwrap();
    let data = root.join("data");
    let copy = |from: &Path, to: &Path| {
        let copied = Command::new("cp").args(["-a", path(from), path(to)]).status().unwrap();
        assert!(copied.success(), "{} cannot be copied to {}", from.display(), to.display());
    };
    if kept.exists() {
        return copy(&kept, &data);
    }
    let options = ["-U", "postgres", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"];
    let made = run("initdb", &[&["-D", path(&data)], &options[..]].concat());
    assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
    let half = kept.with_extension("half");
    let _ = fs::remove_dir_all(&half);
    copy(&data, &half);
    fs::rename(half, kept).unwrap();
}

/// Makes a database cluster and starts its server.
fn start(root: &Path) -> u16 {
    init(root);
    let data = root.join("data");
    for _ in 0..STARTS {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let conf = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nmax_connections = 400\n\
             shared_buffers = 128MB\nfsync = on\nsynchronous_commit = on\nmax_wal_size = 1GB\nlog_min_messages = warning\n\
             log_line_prefix = '%m %a '\n",
            path(root)
        );
        fs::write(data.join("postgresql.auto.conf"), conf).unwrap();
        if pg_ctl(root, &["-w", "-l", &log_path(root), "start"]) {
            return port;
        }
    }
    panic!("PostgreSQL does not start: {}", log(root));
}

/// A folder that the server's user may write to.
fn make_root() -> PathBuf {
    let root = tempfile::Builder::new().prefix("lapse-postgres-").tempdir().unwrap().keep();
    if is_root() {
        let name = CString::new(USER).unwrap();
        // SAFETY: the name is a C string; what comes back is read at once, and the harness asks for no other.
        let user = unsafe { libc::getpwnam(name.as_ptr()).as_ref() };
        let user = user.expect("PostgreSQL refuses to run as root, and there is no user `postgres`: install it");
        let folder = CString::new(root.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is a C string.
        assert_eq!(unsafe { libc::chown(folder.as_ptr(), user.pw_uid, user.pw_gid) }, 0);
    }
    root
}

#[expect(
    clippy::zombie_processes,
    reason = "the watcher outlives this process: it stops the server when nobody uses it"
)]
fn watch(lock: &Path, grace: &str, root: &Path, ready: Option<&Path>) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/support/postgres_watch.sh");
    let user = if is_root() { USER } else { "-" };
    let mut command = Command::new("setsid");
    command.args(["sh", script, path(lock), grace, path(programs()), path(root), ready.map_or("-", path), user]);
    quiet(&mut command).spawn().expect("the watcher of PostgreSQL starts");
}

fn pg_ctl(root: &Path, args: &[&str]) -> bool {
    let data = root.join("data");
    let mut all = vec!["-D", path(&data), "-s"];
    all.extend(args);
    run("pg_ctl", &all).status.success()
}

/// Runs one of PostgreSQL's programs, as its user.
fn run(program: &str, args: &[&str]) -> std::process::Output {
    let program = programs().join(program);
    let mut command = if is_root() {
        let mut command = Command::new("runuser");
        command.args(["-u", USER, "--", path(&program)]);
        command
    } else {
        Command::new(program)
    };
    // What a server inherits, it holds open: nothing of the test's. Interrupts of the test are not its own.
    let errors = tempfile::tempfile().unwrap();
    command.args(args).current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
    let status = command.stderr(errors.try_clone().unwrap()).status().expect("PostgreSQL's programs run");
    let mut stderr = Vec::new();
    let mut errors = errors;
    io::Seek::rewind(&mut errors).unwrap();
    io::Read::read_to_end(&mut errors, &mut stderr).unwrap();
    std::process::Output { status, stdout: Vec::new(), stderr }
}

fn quiet(command: &mut Command) -> &mut Command {
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

/// The folder of the newest PostgreSQL's programs.
fn programs() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let version = |folder: &PathBuf| {
            folder.parent()?.file_name()?.to_str()?.parse::<u32>().ok().filter(|_| folder.join("postgres").exists())
        };
        let installed = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let debian = installed.map(|entry| entry.path().join("bin")).filter_map(|f| version(&f).map(|v| (v, f))).max();
        let on_path = || {
            let path = std::env::var_os("PATH")?;
            std::env::split_paths(&path).find(|folder| folder.join("initdb").exists())
        };
        debian.map(|(_, folder)| folder).or_else(on_path).expect("no PostgreSQL is installed: run scripts/setup.sh")
    })
}

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a temporary folder with a plain name")
}

fn log_path(root: &Path) -> String {
    path(&root.join("log")).to_owned()
}

fn log(root: &Path) -> String {
    fs::read_to_string(root.join("log")).unwrap_or_default()
}

fn url(port: u16, name: &str) -> String {
    format!("postgres://postgres@127.0.0.1:{port}/{name}")
}

async fn client(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn execute(url: &str, sql: &str) {
    client(url).await.batch_execute(sql).await.unwrap();
}
