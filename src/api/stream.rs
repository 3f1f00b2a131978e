//! `stream_events`: what happens, told once a second to whoever listens.
//!
//! ```text
//!  Stats (changes, while watched) ─┐  a task for each namespace that is listened to, once a second:
//!  catalogue, pauses (compared) ───┴─► each event written once ─► broadcast, 8 deep ─► every client of the namespace
//! ```
//!
//! A client that does not keep up misses whole seconds, and is told how many. Nothing is replayed: whoever comes back
//! takes a fresh look.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, de::IntoDeserializer as _};
use tokio::sync::broadcast::{self, error::RecvError};
use utoipa::{IntoParams, ToSchema};

use crate::{
    catalog::{Catalog, Snapshot},
    domain::{
        id::{ApiKeyId, NamespaceId},
        time::Timestamp,
    },
    stats::{Changes, CompensationChange, TimerChange},
};

use super::{
    Api, Inner,
    auth::Caller,
    extract::Query,
    model::{CompensationState, TimerState},
    problem::{Code, Error, Result},
};

/// How often clients are told.
const EVERY: Duration = Duration::from_secs(1);
/// How long a stream says nothing at the most.
const PING_EVERY: Duration = Duration::from_secs(10);
/// Seconds that a client may lag behind before it misses some.
const DEPTH: usize = 8;
/// Streams of one key on one node.
const MAX_PER_KEY: usize = 32;
/// Names of types in one event.
const MAX_NAMES: usize = 500;

/// What a stream tells of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Topic {
    Stats,
    Timers,
    Compensations,
    Types,
}

const TOPICS: [Topic; 4] = [Topic::Stats, Topic::Timers, Topic::Compensations, Topic::Types];

impl Topic {
    fn as_str(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Timers => "timers",
            Self::Compensations => "compensations",
            Self::Types => "types",
        }
    }
}

/// One topic or more; all, if left out.
pub struct Topics(Vec<Topic>);

impl Default for Topics {
    fn default() -> Self {
        Self(TOPICS.to_vec())
    }
}

impl<'de> Deserialize<'de> for Topics {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let mut topics = Vec::new();
        for word in text.split(',') {
            let topic = Topic::deserialize(word.into_deserializer())?;
            if !topics.contains(&topic) {
                topics.push(topic);
            }
        }
        Ok(Self(topics))
    }
}

/// What to tell of.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StreamParams {
    /// These topics: the parameter several times, or words with commas between them. All of them, if left out.
    #[serde(default)]
    #[param(inline, value_type = Option<Vec<Topic>>, nullable = false)]
    topics: Topics,
}

/// Streams what happens, as server-sent events.
///
/// At once `hello` (`now`, `node_id`, `version`, `started_at`). Then, once a second at most: `stats`, the body of
/// `get_stats` without its history; `timers`, the timers that changed through this node, without payload, labels and
/// outcome, and `compensations` (`now`, `changed`: at most 100, `dropped`: how many more); `types` (`now`, `changed`:
/// names) when a type or a pause changed. `missed` says how many seconds a slow client was not told of. Nothing is
/// replayed: whoever comes back takes a fresh look. A key has at most 32 streams on a node; a stream ends when its node
/// drains.
#[utoipa::path(
    get, path = "/v1/events/stream", operation_id = "stream_events", tag = "operations", params(StreamParams),
    responses((status = 200, description = "The events", content_type = "text/event-stream", body = String))
)]
pub async fn stream_events(
    State(api): State<Api>,
    caller: Caller,
    Query(StreamParams { topics: Topics(topics) }): Query<StreamParams>,
) -> Result<Response> {
    if api.health.is_draining() {
        return Err(Error::unavailable("the node is draining; another will answer"));
    }
    let place = Place::take(&api, caller.key_id)?;
    let receiver = api.listen(caller.namespace_id);
    let mut first = frame("hello", &Hello::of(&api));
    if topics.contains(&Topic::Stats) {
        first.push_str(&frame("stats", &api.stats_of(caller.namespace_id).await));
    }
    let client = Client { receiver, topics, first: Some(first), _place: place };
    let body = Body::from_stream(futures_util::stream::unfold(client, async |mut client| {
        let bytes = client.next().await?;
        Some((Ok::<_, std::convert::Infallible>(bytes), client))
    }));
    // A proxy that gathers an answer before it passes it on would never pass this one on.
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::HeaderName::from_static("x-accel-buffering"), "no")];
    Ok((headers, body).into_response())
}

/// Everybody who listens.
#[derive(Default)]
pub(super) struct Streams {
    /// By namespace; each has a task that speaks to it.
    rooms: Mutex<HashMap<NamespaceId, broadcast::Sender<Arc<Told>>>>,
    /// Streams of each key that has some.
    by_key: Mutex<HashMap<ApiKeyId, usize>>,
}

/// One second, as it is written to every client.
struct Told(Vec<(Topic, String)>);

/// One of a key's streams.
struct Place {
    api: Api,
    key: ApiKeyId,
}

impl Place {
    fn take(api: &Api, key: ApiKeyId) -> Result<Self> {
        let mut by_key = api.streams.by_key.lock();
        let count = by_key.entry(key).or_default();
        if *count >= MAX_PER_KEY {
            let detail = format!("this key has {MAX_PER_KEY} streams already; close one first");
            return Err(Error::new(Code::RateLimited, detail).retry_after(1));
        }
        *count += 1;
        Ok(Self { api: Arc::clone(api), key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_key = self.api.streams.by_key.lock();
        if let Some(count) = by_key.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                by_key.remove(&self.key);
            }
        }
    }
}

struct Client {
    receiver: broadcast::Receiver<Arc<Told>>,
    topics: Vec<Topic>,
    first: Option<String>,
    _place: Place,
}

impl Client {
    /// What is to be written next; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(first) = self.first.take() {
            return Some(first.into());
        }
        let until = tokio::time::Instant::now() + PING_EVERY;
        loop {
            match tokio::time::timeout_at(until, self.receiver.recv()).await {
                Err(_elapsed) => return Some(Bytes::from_static(b": ping\n\n")),
                Ok(Err(RecvError::Closed)) => return None,
                Ok(Err(RecvError::Lagged(seconds))) => return Some(frame("missed", &Missed { seconds }).into()),
                Ok(Ok(told)) => {
                    let mine = told.0.iter().filter(|(topic, _)| self.topics.contains(topic));
                    let text: String = mine.map(|(_, frame)| frame.as_str()).collect();
                    if !text.is_empty() {
                        return Some(text.into());
                    }
                }
            }
        }
    }
}

fn frame(event: &str, data: &impl Serialize) -> String {
    let data = serde_json::to_string(data).unwrap_or_else(|error| {
        tracing::error!(%error, "an event cannot be written");
        "{}".to_owned()
    });
    format!("event: {event}\ndata: {data}\n\n")
}

impl Inner {
    /// Joins those who listen to a namespace; the first starts its task.
    fn listen(self: &Arc<Self>, namespace: NamespaceId) -> broadcast::Receiver<Arc<Told>> {
        let mut rooms = self.streams.rooms.lock();
        if let Some(sender) = rooms.get(&namespace) {
            return sender.subscribe();
        }
        let (sender, receiver) = broadcast::channel(DEPTH);
        rooms.insert(namespace, sender);
        self.stats.watch(namespace);
        tokio::spawn(speak(Arc::clone(self), namespace));
        receiver
    }

    /// The room's sender, as long as somebody listens and the node does not drain; else the room is closed.
    fn still_heard(&self, namespace: NamespaceId) -> Option<broadcast::Sender<Arc<Told>>> {
        let mut rooms = self.streams.rooms.lock();
        let sender = rooms.get(&namespace).filter(|s| s.receiver_count() > 0 && !self.health.is_draining()).cloned();
        if sender.is_none() {
            rooms.remove(&namespace);
            self.stats.unwatch(namespace);
        }
        sender
    }
}

/// Tells a namespace's listeners once a second, until there are none.
async fn speak(api: Api, namespace: NamespaceId) {
    let mut known = Known::of(&api.catalog, namespace, api.clock.now());
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        if api.still_heard(namespace).is_none() {
            return;
        }
        let now = api.clock.now();
        let changes = api.stats.take_changes(namespace);
        let mut told = vec![(Topic::Stats, frame("stats", &api.stats_of(namespace).await))];
        told.extend(changed(&api.catalog.snapshot(), changes, now));
        let next = Known::of(&api.catalog, namespace, now);
        let names = known.changed(&next);
        if !names.is_empty() {
            told.push((Topic::Types, frame(Topic::Types.as_str(), &TypesChanged { now, changed: names })));
        }
        known = next;
        let Some(sender) = api.still_heard(namespace) else { return };
        // Whoever listened may have gone this very moment.
        let _ = sender.send(Arc::new(Told(told)));
    }
}

#[derive(Serialize)]
struct Hello<'a> {
    now: Timestamp,
    node_id: &'a str,
    version: &'static str,
    started_at: Timestamp,
}

impl<'a> Hello<'a> {
    fn of(api: &'a Inner) -> Self {
        Self {
            now: api.clock.now(),
            node_id: &api.node,
            version: env!("CARGO_PKG_VERSION"),
            started_at: api.stats.since(),
        }
    }
}

#[derive(Serialize)]
struct Missed {
    seconds: u64,
}

#[derive(Serialize)]
struct TypesChanged {
    now: Timestamp,
    changed: Vec<String>,
}

#[derive(Serialize)]
struct Latest<T> {
    now: Timestamp,
    changed: Vec<T>,
    dropped: u64,
}

/// A timer as a list without payloads shows it.
#[derive(Serialize)]
struct TimerSummary {
    id: String,
    r#type: String,
    key: String,
    state: TimerState,
    due_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Timestamp>,
    expired: bool,
    attempt: u32,
    version: i64,
    revision: i64,
    created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    settled_at: Option<Timestamp>,
}

#[derive(Serialize)]
struct CompensationSummary {
    id: String,
    timer_id: String,
    r#type: String,
    kind: String,
    state: CompensationState,
    attempt: u32,
}

fn changed(snapshot: &Snapshot, changes: Changes, now: Timestamp) -> Vec<(Topic, String)> {
    let name = |id| snapshot.row(id).map(|t| t.name.to_string()).unwrap_or_default();
    let timer = |t: TimerChange| TimerSummary {
        id: t.id.to_string(),
        r#type: name(t.type_id),
        expired: !t.state.is_final() && t.due_at <= now,
        key: t.key,
        state: t.state.into(),
        due_at: t.due_at,
        run_at: t.run_at,
        attempt: t.attempt,
        version: t.version,
        revision: t.revision,
        created_at: t.created_at,
        settled_at: t.settled_at,
    };
    let compensation = |c: CompensationChange| CompensationSummary {
        id: c.id.to_string(),
        timer_id: c.timer_id.to_string(),
        r#type: name(c.type_id),
        kind: c.kind.to_string(),
        state: c.state.into(),
        attempt: c.attempt,
    };
    let Changes { timers, compensations } = changes;
    let mut told = Vec::new();
    if !timers.latest.is_empty() {
        let changed =
            Latest { now, changed: timers.latest.into_values().map(timer).collect(), dropped: timers.dropped };
        told.push((Topic::Timers, frame(Topic::Timers.as_str(), &changed)));
    }
    if !compensations.latest.is_empty() {
        let changed = compensations.latest.into_values().map(compensation).collect();
        let changed = Latest { now, changed, dropped: compensations.dropped };
        told.push((Topic::Compensations, frame(Topic::Compensations.as_str(), &changed)));
    }
    told
}

/// A namespace's types, as far as a change of them is told.
#[derive(Default)]
struct Known(BTreeMap<String, (i64, Timestamp, bool)>);

impl Known {
    fn of(catalog: &Catalog, namespace: NamespaceId, now: Timestamp) -> Self {
        let (snapshot, pauses) = (catalog.snapshot(), catalog.pauses());
        let types = snapshot.catalogue.types.iter().filter(|t| t.namespace_id == namespace);
        let known =
            |t: &crate::domain::plugin::TypeRow| (t.active, t.updated_at, pauses.of(namespace, t.id, now).is_some());
        Self(types.map(|t| (t.name.to_string(), known(t))).collect())
    }

    fn changed(&self, next: &Self) -> Vec<String> {
        let is_new = |(name, known): &(&String, &(i64, Timestamp, bool))| self.0.get(*name) != Some(*known);
        let gone = self.0.keys().filter(|name| !next.0.contains_key(*name));
        next.0.iter().filter(is_new).map(|(name, _)| name).chain(gone).take(MAX_NAMES).cloned().collect()
    }
}
