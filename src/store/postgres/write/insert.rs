//! Registering.

use std::collections::{HashMap, HashSet};

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

pub(super) fn key_of(timer: &Timer) -> Key {
    (timer.type_id, timer.key.clone())
}

/// Registrations that are carried out together. Of those with one key the first is tried, and the others are held
/// against it.
pub(super) struct Registrations<'a> {
    new: Vec<&'a NewTimer>,
    /// Each with its place among all.
    firsts: HashMap<Key, (usize, Timer)>,
    /// The keys of those whose due time is out of range: under them there may be one that was made when it was not yet.
    out_of_range: Vec<Key>,
}

impl<'a> Registrations<'a> {
    pub(super) fn new(new: Vec<&'a NewTimer>, chain: &Chain, now: Timestamp) -> Self {
        let mut firsts = HashMap::<Key, (usize, Timer)>::new();
        let mut out_of_range = Vec::new();
        for (place, new) in new.iter().enumerate() {
            let key = (new.type_id, new.key.clone());
            if firsts.contains_key(&key) {
                continue;
            }
            match registered(new, chain, now) {
                Some(timer) => drop(firsts.insert(key, (place, timer))),
                None => out_of_range.push(key),
            }
        }
        Self { new, firsts, out_of_range }
    }

    /// The timers that come into being where their keys are free.
    pub(super) fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.firsts.values().map(|(_, timer)| timer)
    }

    /// Every key that is spoken of, once or more.
    pub(super) fn keys(&self) -> Vec<Key> {
        self.firsts.keys().chain(&self.out_of_range).cloned().collect()
    }

    /// What became of each, in order, with what stands under the keys that were taken.
    pub(super) fn answers(&self, taken: &HashMap<Key, Timer>) -> Vec<Inserted> {
        let answer = |(place, new): (usize, &&NewTimer)| {
            let key = (new.type_id, new.key.clone());
            // Of this batch's own, only what came before.
            let own = self.firsts.get(&key);
            let comes_later = |timer: &&Timer| own.is_some_and(|(first, own)| *first > place && own.id == timer.id);
            match taken.get(&key).or(own.map(|(_, timer)| timer)).filter(|timer| !comes_later(timer)) {
                // What was taken may be there by this same registration, whose first answer was lost.
                Some(timer) if timer.id == new.id => Inserted::Created(timer.clone()),
                Some(timer) => against(timer.clone(), &new.fingerprint),
                None => Inserted::OutOfRange,
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
        let mut sought: Vec<Key> = registrations.timers().filter(|t| !created.contains(&t.id)).map(key_of).collect();
        let not_created = sought.len();
        sought.extend(registrations.out_of_range.iter().cloned());
        // From here on it is done: what cannot be read again is in doubt.
        let taken = self.by_keys(&sought).await.map_err(Fault::at_commit)?;
        if sought[..not_created].iter().any(|key| !taken.contains_key(key)) {
            return Err(Fault::Unknown("a key was taken and free again".into()));
        }
        Ok(registrations.answers(&taken).into_iter().map(Answer::Inserted).collect())
    }

    /// What stands under the keys of these.
    pub(super) async fn by_keys(&self, of: &[Key]) -> Result<HashMap<Key, Timer>, Fault> {
        if of.is_empty() {
            return Ok(HashMap::new());
        }
        let rows = self
            .conn
            .rows("timers.by_keys", &[&column(of, |(type_id, _)| type_id.0), &column(of, |(_, key)| key.as_str())])
            .await?;
        rows.iter().map(|row| row::timer(row).map(|t| (key_of(&t), t))).collect()
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
