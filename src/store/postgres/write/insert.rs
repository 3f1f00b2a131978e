//! Registering.

use std::collections::{HashMap, HashSet, hash_map::Entry};

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Batch;
use crate::{
    domain::{
        audit::Chain,
        id::{TimerId, TimerKey, TypeId},
        time::Timestamp,
        timer::{NewTimer, Timer},
    },
    store::{
        op::{Answer, Inserted, Op},
        postgres::{
            error::Fault,
            row::{self, code, column, json_text, ms},
        },
        register::{against, registered},
    },
};

pub(super) type Key = (TypeId, TimerKey);

/// Registrations that are carried out together. Of those with one key the first is tried, and the others are held
/// against it.
pub(super) struct Registrations<'a> {
    new: Vec<&'a NewTimer>,
    firsts: HashMap<Key, Timer>,
    out_of_range: HashSet<usize>,
}

impl<'a> Registrations<'a> {
    pub(super) fn new(new: Vec<&'a NewTimer>, chain: &Chain, now: Timestamp) -> Self {
        let mut firsts = HashMap::<Key, Timer>::new();
        let mut out_of_range = HashSet::new();
        for (nth, new) in new.iter().enumerate() {
            match firsts.entry((new.type_id, new.key.clone())) {
                Entry::Vacant(free) => match registered(new, chain, now) {
                    Some(timer) => drop(free.insert(timer)),
                    None => drop(out_of_range.insert(nth)),
                },
                Entry::Occupied(_) => {
                    if new.due.resolve(now).is_err() {
                        out_of_range.insert(nth);
                    }
                }
            }
        }
        Self { new, firsts, out_of_range }
    }

    /// The timers that come into being where their keys are free.
    pub(super) fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.firsts.values()
    }

    /// What became of each, in order, with what stands under the keys that were taken.
    pub(super) fn answers(&self, taken: &HashMap<Key, Timer>) -> Vec<Inserted> {
        let answer = |(nth, new): (usize, &&NewTimer)| {
            if self.out_of_range.contains(&nth) {
                return Inserted::OutOfRange;
            }
            let key = (new.type_id, new.key.clone());
            match (taken.get(&key), self.firsts.get(&key)) {
                // What was taken may be there by this same registration, whose first answer was lost.
                (Some(timer), _) | (None, Some(timer)) if timer.id == new.id => Inserted::Created(timer.clone()),
                (Some(timer), _) | (None, Some(timer)) => against(timer.clone(), &new.fingerprint),
                (None, None) => Inserted::OutOfRange,
            }
        };
        self.new.iter().enumerate().map(answer).collect()
    }
}

impl Batch<'_> {
    pub(super) async fn inserts(&self, ops: &[&Op]) -> Result<Vec<Answer>, Fault> {
        let now = self.clock().await?;
        let new = ops.iter().map(|op| match op {
            Op::Insert(new) => new,
            _ => unreachable!("asked for with another operation"),
        });
        let registrations = Registrations::new(new.collect(), self.chain, now);
        self.know_types(registrations.new.iter().map(|n| n.type_id.0)).await?;
        let rows = NewRows::new(registrations.timers().collect());
        let created = self.sent(self.conn.write("timers.insert", &rows.params())).await?;
        let created: HashSet<TimerId> =
            created.iter().map(|row| row::get(row, 0).map(TimerId)).collect::<Result<_, _>>()?;
        let free: Vec<&Timer> = registrations.timers().filter(|t| !created.contains(&t.id)).collect();
        // From here on it is done: what cannot be read again is in doubt.
        let taken = self.by_keys(&free).await.map_err(Fault::at_commit)?;
        if taken.len() < free.len() {
            return Err(Fault::Unknown("a key was taken and free again".into()));
        }
        Ok(registrations.answers(&taken).into_iter().map(Answer::Inserted).collect())
    }

    /// What stands under the keys of these.
    pub(super) async fn by_keys(&self, of: &[&Timer]) -> Result<HashMap<Key, Timer>, Fault> {
        if of.is_empty() {
            return Ok(HashMap::new());
        }
        let rows =
            self.conn.rows("timers.by_keys", &[&column(of, |t| t.type_id.0), &column(of, |t| t.key.as_str())]).await?;
        rows.iter().map(|row| row::timer(row).map(|t| ((t.type_id, t.key.clone()), t))).collect()
    }
}

/// The columns of rows that are inserted, in order of key.
#[derive(Default)]
pub(super) struct NewRows<'a> {
    id: Vec<Uuid>,
    namespace_id: Vec<i64>,
    type_id: Vec<i64>,
    key: Vec<&'a str>,
    shard: Vec<i16>,
    due_at: Vec<i64>,
    run_at: Vec<Option<i64>>,
    revision: Vec<i64>,
    pinned: Vec<bool>,
    depth: Vec<i64>,
    created_at: Vec<i64>,
    actor: Vec<&'a str>,
    fingerprint: Vec<Option<&'a [u8]>>,
    message_id: Vec<Option<&'a str>>,
    head: Vec<&'a [u8]>,
    labels: Vec<Option<String>>,
    payload: Vec<&'a str>,
    state: Vec<i16>,
    version: Vec<i64>,
    settled_at: Vec<Option<i64>>,
}

impl<'a> NewRows<'a> {
    pub(super) fn new(mut timers: Vec<&'a Timer>) -> Self {
        timers.sort_by(|a, b| (a.type_id, &a.key).cmp(&(b.type_id, &b.key)));
        Self {
            id: column(&timers, |t| t.id.0),
            namespace_id: column(&timers, |t| t.namespace_id.0),
            type_id: column(&timers, |t| t.type_id.0),
            key: column(&timers, |t| t.key.as_str()),
            shard: column(&timers, |t| i16::try_from(t.shard()).unwrap_or(i16::MAX)),
            due_at: column(&timers, |t| t.due_at.as_millis()),
            run_at: column(&timers, |t| ms(t.run_at)),
            revision: column(&timers, |t| t.revision),
            pinned: column(&timers, |t| t.pinned),
            depth: column(&timers, |t| i64::from(t.depth)),
            created_at: column(&timers, |t| t.created_at.as_millis()),
            actor: column(&timers, |t| t.origin.actor.as_str()),
            fingerprint: column(&timers, |t| t.origin.fingerprint.as_ref().map(|f| &f[..])),
            message_id: column(&timers, |t| t.origin.message_id.as_deref()),
            head: column(&timers, |t| &t.head[..]),
            labels: column(&timers, |t| (!t.labels.is_empty()).then(|| json_text(&t.labels))),
            payload: column(&timers, |t| t.payload.as_str()),
            state: column(&timers, |t| code(t.state.code())),
            version: column(&timers, |t| t.version),
            settled_at: column(&timers, |t| ms(t.settled_at)),
        }
    }

    /// In the order of the fragment `new_rows` in `timers.sql`.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.id,
            &self.namespace_id,
            &self.type_id,
            &self.key,
            &self.shard,
            &self.due_at,
            &self.run_at,
            &self.revision,
            &self.pinned,
            &self.depth,
            &self.created_at,
            &self.actor,
            &self.fingerprint,
            &self.message_id,
            &self.head,
            &self.labels,
            &self.payload,
            &self.state,
            &self.version,
            &self.settled_at,
        ]
    }
}
