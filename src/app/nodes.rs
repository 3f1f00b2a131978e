//! The nodes that share the database: each says every second that it lives, and learns which others do.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};

use crate::{
    delivery::live::{LiveNodes, Unknown, owner},
    domain::time::DurationMs,
    store::postgres::{LiveNode, Postgres},
};

/// How often a node says that it lives.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// A node that has not said so for this long is taken for dead.
const DEAD_AFTER: DurationMs = DurationMs::from_secs(4);
/// What was heard longer ago than this is not known any more.
const KNOWN_FOR: Duration = Duration::from_secs(3);
/// Rows of nodes that went without a word are removed after this.
const FORGOTTEN_AFTER: DurationMs = DurationMs::from_secs(600);
/// How long taking back this node's word may take.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

/// This node's heartbeat.
pub(super) struct Nodes {
    postgres: Arc<Postgres>,
    node: String,
    heard: Arc<Heard>,
    beating: JoinHandle<()>,
}

/// The last list that came, and when.
#[derive(Default)]
pub(super) struct Heard(Mutex<Option<(Instant, Vec<LiveNode>)>>);

impl Nodes {
    /// Begins to beat; the first beat is made before it returns, so that the others know of this node. One that does not
    /// fire has no part in the shards and in the drain rate.
    ///
    /// # Errors
    /// The database cannot be written to.
    pub async fn start(postgres: Arc<Postgres>, node: String, fires: bool) -> crate::store::Result<Self> {
        let heard = Arc::<Heard>::default();
        heard.note(postgres.beat(&node, fires, DEAD_AFTER).await?);
        let beating = tokio::spawn(beat(Arc::clone(&postgres), node.clone(), fires, Arc::clone(&heard)));
        Ok(Self { postgres, node, heard, beating })
    }

    pub fn live(&self) -> Arc<dyn LiveNodes> {
        Arc::<Heard>::clone(&self.heard)
    }

    pub fn heard(&self) -> Arc<Heard> {
        Arc::clone(&self.heard)
    }

    pub fn postgres(&self) -> Arc<Postgres> {
        Arc::clone(&self.postgres)
    }

    /// Takes this node's word back: the others share out what was its own.
    pub async fn leave(self) {
        self.beating.abort();
        let _aborted = self.beating.await;
        let leaving = self.postgres.leave(&self.node, FORGOTTEN_AFTER);
        match tokio::time::timeout(LEAVE_WITHIN, leaving).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "this node's row could not be removed; the others miss it soon"),
            Err(_elapsed) => tracing::warn!("this node's row could not be removed in time; the others miss it soon"),
        }
    }
}

async fn beat(postgres: Arc<Postgres>, node: String, fires: bool, heard: Arc<Heard>) {
    let mut well = true;
    loop {
        tokio::time::sleep(BEAT_EVERY).await;
        // The server's clock is asked at least as often as this, also by a node that has nothing to do.
        let beaten = match postgres.beat(&node, fires, DEAD_AFTER).await {
            Ok(nodes) => {
                heard.note(nodes);
                crate::store::Driver::now(&*postgres).await.map(drop)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = &beaten
            && well
        {
            tracing::warn!(%error, "the database does not hear this node's heartbeat");
        }
        well = beaten.is_ok();
    }
}

impl Heard {
    /// Whether a node lives that only registers, as far as was last heard.
    pub fn any_registers_only(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|(_, nodes)| nodes.iter().any(|node| !node.fires))
    }

    /// Whether a shard is this node's among those that fire.
    pub fn owns(&self, node: &str, shard: u16) -> bool {
        let heard = self.0.lock();
        let nodes = heard.iter().flat_map(|(_, nodes)| nodes);
        let firing = nodes.filter(|live| live.fires && live.id != node).map(|live| live.id.as_str());
        owner(shard, firing.chain([node])) == Some(node)
    }

    fn note(&self, nodes: Vec<LiveNode>) {
        *self.0.lock() = Some((Instant::now(), nodes));
    }
}

#[async_trait]
impl LiveNodes for Heard {
    async fn live_nodes(&self) -> Result<Vec<String>, Unknown> {
        match &*self.0.lock() {
            Some((at, nodes)) if at.elapsed() < KNOWN_FOR => {
                Ok(nodes.iter().filter(|node| node.fires).map(|node| node.id.clone()).collect())
            }
            _ => Err(Unknown("the database was not heard of for some seconds".into())),
        }
    }
}
