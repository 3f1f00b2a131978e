//! Which shards are this node's while there is no broker: rendezvous hashing over the nodes that are alive.
//!
//! Each node computes it by itself from the same names, so they agree without speaking; a node that comes or goes moves
//! only its own shards. While two nodes see different lists, a shard has two owners or, for as long as a heartbeat takes
//! to lapse, none: its timers are then late by what the backlog waits.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;

/// The nodes whose heartbeat is fresh. Asked every second.
#[async_trait]
pub trait LiveNodes: Send + Sync + 'static {
    /// Their names, in any order.
    async fn live_nodes(&self) -> Result<Vec<String>, Unknown>;
}

/// Why nobody knows which nodes are alive: mostly, the database cannot be reached.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the live nodes are not known: {0}")]
pub struct Unknown(pub String);

/// A node that knows of no other.
#[derive(Debug)]
pub struct Alone;

#[async_trait]
impl LiveNodes for Alone {
    async fn live_nodes(&self) -> Result<Vec<String>, Unknown> {
        Ok(Vec::new())
    }
}

/// The node that a shard belongs to: the one whose hash with it is the highest. `None` if there are no nodes.
pub fn owner<'a>(shard: u16, nodes: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nodes.into_iter().max_by_key(|node| (weight(shard, node), *node))
}

/// FNV-1a over the name and the shard, with the finalizer of MurmurHash3 to spread it; the same on every machine and
/// version.
fn weight(shard: u16, node: &str) -> u64 {
    let hash = node
        .bytes()
        .chain(shard.to_be_bytes())
        .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// How long the list of nodes may take to come; the one before it stays in force.
const PATIENCE: Duration = Duration::from_secs(1);

/// The last known list, this node always among them.
pub(super) struct Members {
    node: String,
    live: Arc<dyn LiveNodes>,
    others: Mutex<Vec<String>>,
}

impl Members {
    pub fn new(node: String, live: Arc<dyn LiveNodes>) -> Self {
        Self { node, live, others: Mutex::default() }
    }

    /// Asks for the list. One that does not come leaves the last one in force.
    pub async fn refresh(&self) -> Result<(), Unknown> {
        let mut nodes = match tokio::time::timeout(PATIENCE, self.live.live_nodes()).await {
            Ok(nodes) => nodes?,
            Err(_elapsed) => return Err(Unknown(format!("no answer within {} ms", PATIENCE.as_millis()))),
        };
        nodes.retain(|n| *n != self.node);
        *self.others.lock() = nodes;
        Ok(())
    }

    pub fn owns(&self, shard: u16) -> bool {
        let others = self.others.lock();
        owner(shard, others.iter().map(String::as_str).chain([self.node.as_str()])) == Some(self.node.as_str())
    }

    /// How many nodes there are, this one among them.
    pub fn count(&self) -> usize {
        self.others.lock().len() + 1
    }
}
