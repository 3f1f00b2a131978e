//! A private MariaDB for a test: in a temporary folder, on a free loopback port, gone with the test, however that ends.

use std::{
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a server may take to start, and tries, since the free port that was found may be taken by then.
const STARTS_WITHIN: Duration = Duration::from_mins(1);
const STARTS: usize = 5;

pub struct MariaDb {
    server: Child,
    port: u16,
    _root: tempfile::TempDir,
}

/// A test's database is small, and quickly made.
const SMALL: [&str; 2] = ["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"];

const INIT: &str = "CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE USER 'lapse'@'%' IDENTIFIED BY 'hu@sh';
GRANT ALL ON *.* TO 'lapse'@'%';
";

impl MariaDb {
    /// From the test's own thread: the server ends with it.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// One that takes connections over TLS only, with this certificate and key.
    pub fn start_with_tls(certificate: &str, key: &str) -> Self {
        Self::start_with(&[("ssl-cert", certificate), ("ssl-key", key)])
    }

    /// With files that options of these names lead to.
    fn start_with(files: &[(&str, &str)]) -> Self {
        let root = tempfile::Builder::new().prefix("lapse-mariadb-").tempdir().unwrap();
        let data = root.path().join("data");
        let user = if is_root() { vec!["--user=root".to_owned()] } else { Vec::new() };
        let made = Command::new("mariadb-install-db")
            .current_dir("/")
            // A server that starts clears away temporary tables, and so those of others that share its folder.
            .env("TMPDIR", root.path())
            .stdin(Stdio::null())
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(SMALL)
            .arg(format!("--datadir={}", data.display()))
            .args(&user)
            .output();
        let made =
            made.unwrap_or_else(|e| panic!("MariaDB's programs cannot be run ({e}): run scripts/setup.sh mariadb"));
        let said = || String::from_utf8_lossy(&[&made.stdout[..], &made.stderr].concat()).into_owned();
        assert!(made.status.success(), "mariadb-install-db: {}: {}", made.status, said());
        std::fs::write(root.path().join("init.sql"), INIT).unwrap();
        let mut more = Vec::new();
        for (option, content) in files {
            let path = root.path().join(option);
            std::fs::write(&path, content).unwrap();
            more.extend([format!("--{option}={}", path.display()), "--require-secure-transport=ON".to_owned()]);
        }
        more.extend(user.clone());
        for _ in 0..STARTS {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            let mut server = serve(root.path(), port, &more);
            if answers(port, &mut server) {
                return Self { server, port, _root: root };
            }
        }
        let log = std::fs::read_to_string(root.path().join("log")).unwrap_or_default();
        panic!("MariaDB does not start: {log}");
    }

    pub fn url(&self) -> String {
        format!("mysql://lapse:hu%40sh@127.0.0.1:{}/shop", self.port)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn serve(root: &Path, port: u16, more: &[String]) -> Child {
    let at = |name: &str| root.join(name).display().to_string();
    let mut command = Command::new(server_program());
    command
        .arg("--no-defaults")
        .args([format!("--datadir={}", at("data")), format!("--socket={}", at("socket")), format!("--port={port}")])
        .args([format!("--pid-file={}", at("pid")), format!("--init-file={}", at("init.sql"))])
        .args([format!("--log-error={}", at("log"))])
        .args(["--bind-address=127.0.0.1", "--skip-name-resolve"])
        .args(SMALL)
        .args(more)
        .current_dir("/")
        .env("TMPDIR", root)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: between fork and exec it makes one system call: the server is killed when the test's thread ends.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    command.spawn().unwrap_or_else(|e| panic!("mariadbd cannot be run ({e}): run scripts/setup.sh mariadb"))
}

/// Debian keeps it where only root looks.
fn server_program() -> &'static str {
    if Path::new("/usr/sbin/mariadbd").exists() { "/usr/sbin/mariadbd" } else { "mariadbd" }
}

fn answers(port: u16, server: &mut Child) -> bool {
    let until = Instant::now() + STARTS_WITHIN;
    while Instant::now() < until {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return true;
        }
        if server.try_wait().unwrap().is_some() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = server.kill();
    let _ = server.wait();
    false
}

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}
