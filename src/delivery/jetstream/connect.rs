//! The connection: what it is opened with, and what is said over it without waiting for long.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectOptions, Event, ServerAddr,
    jetstream::{self, AckKind, context::ContextBuilder},
};

use super::{health::Health, meter};
use crate::config;

/// How long anything that is asked of the broker may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// How long one acknowledgement may wait to be written: beyond it the server hands the slot out again by itself.
const ACK_PATIENCE: Duration = Duration::from_secs(1);
/// Two pings without an answer and the connection is given up.
const PING_EVERY: Duration = Duration::from_secs(1);
/// The longest wait between two attempts to connect.
const RECONNECT_WITHIN: Duration = Duration::from_secs(1);
/// Publishes whose acknowledgement is awaited at once, over all of this connection.
const PUBLISHES: usize = 1024;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no address of a broker")]
    NoAddress,
    #[error("{address:?} is no address of a broker: {why}")]
    Address { address: String, why: std::io::Error },
    #[error("{} cannot be read: {why}", path.display())]
    File { path: PathBuf, why: std::io::Error },
    #[error("the broker cannot be reached: {0}")]
    Connect(#[from] async_nats::ConnectError),
    #[error("no answer from the broker within {} ms", PATIENCE.as_millis())]
    Silent,
    #[error("the broker's JetStream: {0}")]
    Jetstream(String),
}

pub(super) struct Connection {
    client: Client,
    health: Arc<Health>,
    /// A flush did not come through in time: no more is waited for, since a stop must not take a second a slot.
    is_stuck: AtomicBool,
}

impl Connection {
    /// Connects, for ever if need be, in the background.
    pub async fn open(config: &config::Nats, node: &str, health: &Arc<Health>) -> Result<Self, Error> {
        let events = Arc::clone(health);
        let client = options(config)
            .await?
            .name(format!("lapse {node}"))
            .retry_on_initial_connect()
            .event_callback(move |event| {
                let health = Arc::clone(&events);
                async move { note(&health, &event) }
            })
            .connect(addresses(&config.url)?)
            .await?;
        Ok(Self { client, health: Arc::clone(health), is_stuck: AtomicBool::new(false) })
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn context(&self) -> jetstream::Context {
        context(self.client.clone())
    }

    /// Sends an acknowledgement of any kind. One that cannot be sent is dropped: the server hands the slot out again.
    pub async fn answer(&self, message: &jetstream::Message, kind: AckKind) {
        if !self.health.is_connected() {
            return;
        }
        match tokio::time::timeout(ACK_PATIENCE, message.ack_with(kind)).await {
            Ok(Ok(())) if matches!(kind, AckKind::Ack) => meter::acked(),
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "an acknowledgement cannot be sent"),
            Err(_elapsed) => tracing::debug!("an acknowledgement cannot be sent in time"),
        }
    }

    /// Writes out what is buffered, so that a process that ends takes nothing with it.
    pub async fn flush(&self) {
        if self.health.is_connected() && !self.is_stuck.load(Ordering::Relaxed) {
            let flushed = tokio::time::timeout(ACK_PATIENCE, self.client.flush()).await;
            self.is_stuck.store(flushed.is_err(), Ordering::Relaxed);
        }
    }
}

/// Connects once, for a look.
pub(super) async fn once(config: &config::Nats) -> Result<Client, Error> {
    let connecting = options(config).await?.name("lapse").connect(addresses(&config.url)?);
    Ok(tokio::time::timeout(PATIENCE, connecting).await.map_err(|_| Error::Silent)??)
}

pub(super) fn context(client: Client) -> jetstream::Context {
    ContextBuilder::new().timeout(PATIENCE).ack_timeout(PATIENCE).max_ack_inflight(PUBLISHES).build(client)
}

fn addresses(url: &str) -> Result<Vec<ServerAddr>, Error> {
    let addresses = url
        .split(',')
        .map(str::trim)
        .filter(|a| !a.is_empty())
        .map(|a| a.parse().map_err(|why| Error::Address { address: without_user(a), why }))
        .collect::<Result<Vec<ServerAddr>, _>>()?;
    if addresses.is_empty() { Err(Error::NoAddress) } else { Ok(addresses) }
}

/// An address without the user and the password that may stand in it.
fn without_user(address: &str) -> String {
    address.rsplit_once('@').map_or(address, |(_, host)| host).to_owned()
}

async fn options(config: &config::Nats) -> Result<ConnectOptions, Error> {
    let config::Nats { credentials, seed, tls_ca, tls_cert, tls_key, .. } = config;
    let mut options = ConnectOptions::new()
        .require_tls(config.tls_required)
        .connection_timeout(PATIENCE)
        .request_timeout(Some(PATIENCE))
        .ping_interval(PING_EVERY)
        .reconnect_delay_callback(reconnect_delay);
    if is_set(credentials) {
        let text = read(credentials).await?;
        options = options.credentials(&text).map_err(|why| Error::File { path: credentials.clone(), why })?;
    }
    if is_set(seed) {
        options = options.nkey(read(seed).await?.trim().to_owned());
    }
    if !config.user.is_empty() {
        options = options.user_and_password(config.user.clone(), config.password.reveal().to_owned());
    }
    if !config.token.reveal().is_empty() {
        options = options.token(config.token.reveal().to_owned());
    }
    if is_set(tls_ca) {
        read(tls_ca).await?;
        options = options.add_root_certificates(tls_ca.clone());
    }
    if is_set(tls_cert) {
        read(tls_cert).await?;
        read(tls_key).await?;
        options = options.add_client_certificate(tls_cert.clone(), tls_key.clone());
    }
    Ok(options)
}

fn is_set(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

/// Files are read here first, so that one that is missing is said at the start and not at each attempt to connect.
async fn read(path: &Path) -> Result<String, Error> {
    tokio::fs::read_to_string(path).await.map_err(|why| Error::File { path: path.to_owned(), why })
}

/// At once, then after 50 ms, doubling.
fn reconnect_delay(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(2)).unwrap_or(u32::MAX).min(10);
    if attempts <= 1 { Duration::ZERO } else { (Duration::from_millis(50) * (1 << doublings)).min(RECONNECT_WITHIN) }
}

fn note(health: &Health, event: &Event) {
    match event {
        Event::Connected => {
            tracing::info!("connected to the broker");
            health.set_connected(true);
        }
        Event::Disconnected | Event::Closed => {
            tracing::warn!("the connection to the broker is lost; trying again");
            health.set_connected(false);
        }
        Event::ServerError(error) => health.went_wrong(&format!("the broker says: {error}")),
        Event::ClientError(error) => health.went_wrong(&format!("connecting to the broker: {error}")),
        Event::LameDuckMode | Event::Draining | Event::SlowConsumer(_) => {
            tracing::info!(%event, "the broker's connection");
        }
    }
}
