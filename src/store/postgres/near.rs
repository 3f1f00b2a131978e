//! What a node that only registers tells those that fire: timers that are due too soon for their slots. It goes over the
//! database (`NOTIFY`), which is there with and without a broker, after the commit, and may be lost: a word and no more.

use std::time::Duration;

use uuid::Uuid;

use super::{Postgres, error::Fault, read, row, sql};
use crate::{
    domain::{id::TimerId, timer::Timer},
    store::{Error, Result},
};

/// Timers in one message: 33 bytes each, within the 8,000 that the server takes.
const MAX_TIMERS: usize = 200;
/// Messages heard and not yet looked at; what exceeds it is lost.
const MAX_HEARD: usize = 1_000;

/// How often a connection that listens is looked after: that it still leads somewhere, and to the server that writes.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Timers of one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearTimers {
    pub shard: u16,
    pub ids: Vec<TimerId>,
}

impl NearTimers {
    /// `SHARD ID,ID,…`
    fn encode(shard: u16, ids: &[TimerId]) -> String {
        let ids: Vec<String> = ids.iter().map(|id| id.0.simple().to_string()).collect();
        format!("{shard} {}", ids.join(","))
    }

    fn decode(text: &str) -> Option<Self> {
        let (shard, ids) = text.split_once(' ')?;
        let ids = ids.split(',').take(MAX_TIMERS).map(|id| Uuid::try_parse(id).map(TimerId));
        Some(Self { shard: shard.parse().ok()?, ids: ids.collect::<std::result::Result<_, _>>().ok()? })
    }
}

impl Postgres {
    /// Tells all nodes that listen.
    ///
    /// # Errors
    /// The database cannot be reached; nobody was told.
    pub async fn tell_near(&self, near: &[NearTimers]) -> Result<()> {
        let messages: Vec<String> = near
            .iter()
            .flat_map(|near| near.ids.chunks(MAX_TIMERS).map(|ids| NearTimers::encode(near.shard, ids)))
            .collect();
        if messages.is_empty() {
            return Ok(());
        }
        let messages = &messages;
        self.read(&self.engine, |conn| async move { conn.rows("timers.tell_near", &[messages]).await.map(drop) }).await
    }

    /// Listens on a connection of its own, and hands on what is heard, until that connection ends.
    ///
    /// # Errors
    /// Always in the end: what became of the connection.
    pub async fn hear_near(&self, mut take: impl FnMut(NearTimers) + Send) -> Result<std::convert::Infallible> {
        let (conn, mut heard) = self.connector.connect_hearing(MAX_HEARD).await?;
        conn.command(sql::LISTEN_NEAR).await?;
        let mut check = tokio::time::interval(CHECK_EVERY);
        loop {
            tokio::select! {
                text = heard.recv() => {
                    let ended = || Error::Unavailable("the connection that listens has ended".into());
                    let text = text.ok_or_else(ended)?;
                    NearTimers::decode(&text).map(&mut take);
                }
                _ = check.tick() => {
                    let writes = conn.client.query_one(sql::IS_READ_ONLY, &[]);
                    let answer = tokio::time::timeout(self.read_timeout, writes).await;
                    let silent = || Fault::Timeout("the connection that listens is silent");
                    let row = answer.map_err(|_| silent())?.map_err(Fault::from)?;
                    if row::get(&row, 0)? {
                        return Err(Fault::ReadOnly.into());
                    }
                }
            }
        }
    }

    /// The timers of these ids that are there.
    pub async fn timers_by_id(&self, ids: &[TimerId]) -> Result<Vec<Timer>> {
        let ids: &Vec<Uuid> = &ids.iter().map(|id| id.0).collect();
        self.read(&self.engine, |conn| async move { read::all(&conn, "timers.by_ids", &[ids], row::timer).await }).await
    }
}
