//! The stream of slots and its consumer: created when missing, and otherwise only looked at. A setting that was changed
//! behind our back is reported; applying ours over live messages could drop them.

use std::{sync::Arc, time::Duration};

use async_nats::jetstream::{
    self, ErrorCode,
    consumer::{self, AckPolicy, DeliverPolicy, ReplayPolicy, pull},
    context::{CreateStreamErrorKind, GetStreamErrorKind},
    stream::{self, ConsumerCreateStrictErrorKind, DiscardPolicy, RetentionPolicy, StorageType},
};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::Notify;

use super::{
    Shared,
    connect::{self, Error},
    meter, planner,
};
use crate::{config, delivery::Slot};

/// Without an acknowledgement or progress for this long, the server hands a slot to another node.
pub(super) const ACK_WAIT: Duration = Duration::from_secs(5);
/// The database is the truth: a message that nobody took for minutes is worth nothing.
const MAX_AGE: Duration = Duration::from_mins(5);
/// For how long the id of a message is known. Above the planner's reach, back and ahead, or a slot would be planned twice.
const DUPLICATE_WINDOW: Duration = Duration::from_mins(2);
const _: () = assert!(DUPLICATE_WINDOW.as_secs() > 2 * (planner::AHEAD + planner::BACK) as u64);
/// Far above what `MAX_AGE` lets come together at 16 slots a second.
const MAX_MESSAGES: i64 = 20_000;
const MAX_MESSAGE_BYTES: i32 = 1024;
const CONSUMER: &str = "workers";
/// How often the stream is looked at while all is well.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The least time between two looks, however often one is asked for.
const LOOK_REST: Duration = Duration::from_millis(250);

/// What things are called on the broker.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub stream: String,
    pub consumer: String,
    slots: String,
}

impl Names {
    pub fn new(prefix: &str) -> Self {
        Self { stream: format!("{prefix}-slots"), consumer: CONSUMER.to_owned(), slots: format!("{prefix}.slots") }
    }

    pub fn subject(&self, slot: Slot) -> String {
        format!("{}.{}", self.slots, slot.shard)
    }

    fn stream_config(&self, replicas: usize) -> stream::Config {
        stream::Config {
            name: self.stream.clone(),
            description: Some("Lapse: one message for each shard and second that is about to come".to_owned()),
            subjects: vec![format!("{}.*", self.slots)],
            // A message is there until it is acknowledged, once.
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            num_replicas: replicas,
            max_age: MAX_AGE,
            duplicate_window: DUPLICATE_WINDOW,
            discard: DiscardPolicy::Old,
            max_messages: MAX_MESSAGES,
            max_message_size: MAX_MESSAGE_BYTES,
            max_bytes: -1,
            max_messages_per_subject: -1,
            max_consumers: -1,
            ..Default::default()
        }
    }

    fn consumer_config(&self) -> pull::Config {
        pull::Config {
            durable_name: Some(self.consumer.clone()),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            replay_policy: ReplayPolicy::Instant,
            ack_wait: ACK_WAIT,
            // A slot that is handed back with delay is pending and counts as delivered: neither may run out.
            max_ack_pending: -1,
            max_deliver: -1,
            ..Default::default()
        }
    }
}

/// A setting that is not what it was made as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// `stream.max_age`, `consumer.ack_wait` and so on.
    pub setting: String,
    pub wanted: String,
    pub found: String,
}

/// What the broker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages in the stream.
    pub messages: u64,
    /// Those that no node was given yet.
    pub ready: u64,
    /// Those that are handed out, or handed back with delay.
    pub unacked: u64,
    pub consumers: u64,
}

/// The stream as it was found.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    /// The server's version.
    pub server: String,
    /// What is missing and will be created by the first node that starts: `stream`, `consumer`.
    pub missing: Vec<&'static str>,
    pub changed: Vec<Change>,
    pub counts: Option<Counts>,
}

/// What the last looks have shown, and who asks for another.
#[derive(Default)]
pub(super) struct Notes {
    changed: Mutex<Vec<Change>>,
    counts: Mutex<Option<Counts>>,
    look: Notify,
    /// The stream is not the one that slots were planned into.
    pub anew: Notify,
}

impl Notes {
    pub fn changed(&self) -> Vec<Change> {
        self.changed.lock().clone()
    }

    pub fn counts(&self) -> Option<Counts> {
        *self.counts.lock()
    }

    /// Something is amiss with the stream or the consumer.
    pub fn look_soon(&self) {
        self.look.notify_one();
    }
}

/// Looks at the broker's side without changing it. For a person who asks what is there.
///
/// # Errors
/// The broker cannot be reached or has no JetStream.
pub async fn inspect(config: &config::Nats) -> Result<Look, Error> {
    let client = connect::once(config).await?;
    let context = connect::context(client.clone());
    let names = Names::new(&config.prefix);
    let mut look = Look { server: client.server_info().version, missing: vec![], changed: vec![], counts: None };
    let Some(stream) = find_stream(&context, &names).await? else {
        look.missing = vec!["stream", "consumer"];
        return Ok(look);
    };
    let info = stream.cached_info();
    look.changed = changes_of_stream(&names.stream_config(config.replicas), &info.config);
    match find_consumer(&stream, &names).await? {
        Some(consumer) => {
            look.changed.extend(changes_of_consumer(&names.consumer_config(), &consumer.config));
            look.counts = Some(counts(info, &consumer));
        }
        None => look.missing = vec!["consumer"],
    }
    Ok(look)
}

/// Keeps the stream and the consumer there, and looks at them.
pub(super) async fn keep(shared: Arc<Shared>) {
    let mut connection = shared.health.connection();
    let mut created = None;
    loop {
        if shared.health.is_connected() {
            match ensure(&shared).await {
                Ok(found) => {
                    if created.as_ref().is_some_and(|c| *c != found) {
                        shared.notes.anew.notify_one();
                    }
                    created = Some(found);
                }
                Err(error) => shared.health.went_wrong(&error.to_string()),
            }
            tokio::time::sleep(LOOK_REST).await;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = shared.notes.look.notified() => {}
            _ = connection.changed() => {}
        }
    }
}

/// Creates what is missing and notes what was found. Returns what tells this stream from one of the same name that was
/// made later.
async fn ensure(shared: &Shared) -> Result<String, Error> {
    let Shared { context, names, replicas, notes, .. } = shared;
    let wanted = names.stream_config(*replicas);
    let stream = match find_stream(context, names).await? {
        Some(stream) => stream,
        None => match context.create_stream(wanted.clone()).await {
            Ok(stream) => {
                tracing::info!(broker.stream = names.stream, broker.replicas = replicas, "created the stream of slots");
                notes.anew.notify_one();
                stream
            }
            // Another node was quicker.
            Err(error) if is_taken(&error.kind()) => {
                find_stream(context, names).await?.ok_or_else(|| Error::Jetstream(error.to_string()))?
            }
            Err(error) => return Err(Error::Jetstream(format!("the stream of slots cannot be created: {error}"))),
        },
    };
    let consumer = match find_consumer(&stream, names).await? {
        Some(consumer) => consumer,
        None => match stream.create_consumer_strict(names.consumer_config()).await {
            Ok(consumer) => {
                tracing::info!(broker.consumer = names.consumer, "created the consumer of slots");
                consumer.cached_info().clone()
            }
            Err(error) if error.kind() == ConsumerCreateStrictErrorKind::AlreadyExists => find_consumer(&stream, names)
                .await?
                .ok_or_else(|| Error::Jetstream("the consumer comes and goes".to_owned()))?,
            Err(error) => return Err(Error::Jetstream(format!("the consumer of slots cannot be created: {error}"))),
        },
    };
    let info = stream.cached_info();
    let mut changed = changes_of_stream(&wanted, &info.config);
    changed.extend(changes_of_consumer(&names.consumer_config(), &consumer.config));
    report(notes, changed);
    let counts = counts(info, &consumer);
    meter::counts(&counts);
    *notes.counts.lock() = Some(counts);
    Ok(format!("{:?}", info.created))
}

fn report(notes: &Notes, changed: Vec<Change>) {
    meter::settings_changed(changed.len());
    let mut known = notes.changed.lock();
    for change in changed.iter().filter(|c| !known.contains(c)) {
        let Change { setting, wanted, found } = change;
        tracing::warn!(
            broker.setting = setting,
            broker.wanted = wanted,
            broker.found = found,
            "a setting on the broker is not what it was made as; it is left as it is"
        );
    }
    *known = changed;
}

fn is_taken(kind: &CreateStreamErrorKind) -> bool {
    matches!(kind, CreateStreamErrorKind::JetStream(e) if e.error_code() == ErrorCode::STREAM_NAME_EXIST)
}

async fn find_stream(context: &jetstream::Context, names: &Names) -> Result<Option<stream::Stream>, Error> {
    match context.get_stream(&names.stream).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) => match error.kind() {
            GetStreamErrorKind::JetStream(e) if e.error_code() == ErrorCode::STREAM_NOT_FOUND => Ok(None),
            _ => Err(Error::Jetstream(error.to_string())),
        },
    }
}

async fn find_consumer(stream: &stream::Stream, names: &Names) -> Result<Option<consumer::Info>, Error> {
    use jetstream::context::ConsumerInfoErrorKind;
    match stream.consumer_info(&names.consumer).await {
        Ok(info) => Ok(Some(info)),
        Err(error) => match error.kind() {
            ConsumerInfoErrorKind::NotFound => Ok(None),
            ConsumerInfoErrorKind::JetStream(e) if e.error_code() == ErrorCode::CONSUMER_NOT_FOUND => Ok(None),
            _ => Err(Error::Jetstream(error.to_string())),
        },
    }
}

fn counts(stream: &stream::Info, consumer: &consumer::Info) -> Counts {
    Counts {
        messages: stream.state.messages,
        ready: consumer.num_pending,
        unacked: consumer.num_ack_pending as u64,
        consumers: stream.state.consumer_count as u64,
    }
}

/// Compares the fields that are named.
macro_rules! changes {
    ($what:literal, $wanted:expr, $found:expr, [$($field:ident),* $(,)?]) => {
        [$((stringify!($field), format!("{:?}", $wanted.$field), format!("{:?}", $found.$field))),*]
            .into_iter()
            .filter(|(_, wanted, found)| wanted != found)
            .map(|(field, wanted, found)| Change { setting: format!("{}.{field}", $what), wanted, found })
            .collect()
    };
}

fn changes_of_stream(wanted: &stream::Config, found: &stream::Config) -> Vec<Change> {
    changes!(
        "stream",
        wanted,
        found,
        [
            subjects,
            retention,
            storage,
            num_replicas,
            max_age,
            duplicate_window,
            discard,
            max_messages,
            max_message_size,
            max_bytes,
            max_messages_per_subject,
            no_ack,
            sealed,
            deny_delete,
            mirror,
            republish,
            subject_transform,
        ]
    )
}

fn changes_of_consumer(wanted: &pull::Config, found: &consumer::Config) -> Vec<Change> {
    use consumer::IntoConsumerConfig as _;
    let wanted = wanted.clone().into_consumer_config();
    changes!(
        "consumer",
        wanted,
        found,
        [
            deliver_subject,
            durable_name,
            deliver_policy,
            ack_policy,
            ack_wait,
            max_ack_pending,
            max_deliver,
            backoff,
            filter_subject,
            filter_subjects,
            rate_limit,
            headers_only,
            max_batch,
            max_bytes,
            max_expires,
            inactive_threshold,
            memory_storage,
        ]
    )
}
