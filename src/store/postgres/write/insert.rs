//! Registering.

use std::collections::{HashMap, HashSet};

use super::Batch;
use crate::{
    domain::{
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

impl Batch<'_> {
    pub(super) async fn inserts(&mut self, begin: Option<&str>, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
        let now = self.now(begin).await?;
        let new: Vec<&NewTimer> = ops
            .iter()
            .map(|op| match op {
                Op::Insert(new) => new,
                _ => unreachable!("asked for with another operation"),
            })
            .collect();
        let (answers, _) = self.register(now, &new, &[]).await?;
        Ok(answers.into_iter().map(Answer::Inserted).collect())
    }

    /// Registers all of them, in order, and inserts `ready` with them; says what became of each registration, and which
    /// rows were made.
    pub(super) async fn register(
        &self,
        now: Timestamp,
        new: &[&NewTimer],
        ready: &[Timer],
    ) -> Result<(Vec<Inserted>, HashSet<TimerId>), Fault> {
        self.know_types(new.iter().map(|n| n.type_id.0).chain(ready.iter().map(|t| t.type_id.0))).await?;
        // Of registrations with one key the first is tried, and the others are held against it.
        let mut firsts = HashMap::<Key, Timer>::new();
        let mut out_of_range = HashSet::new();
        for (i, new) in new.iter().enumerate() {
            if let std::collections::hash_map::Entry::Vacant(free) = firsts.entry((new.type_id, new.key.clone())) {
                match registered(new, self.chain, now) {
                    Some(timer) => drop(free.insert(timer)),
                    None => drop(out_of_range.insert(i)),
                }
            } else if new.due.resolve(now).is_err() {
                out_of_range.insert(i);
            }
        }
        let created = self.insert_rows(ready.iter().chain(firsts.values()).collect()).await?;
        let taken: Vec<&Timer> = firsts.values().filter(|t| !created.contains(&t.id)).collect();
        let existing = self.by_keys(&taken).await?;
        let mut made = HashSet::new();
        let answers = new.iter().enumerate().map(|(i, new)| {
            if out_of_range.contains(&i) {
                return Ok(Inserted::OutOfRange);
            }
            let key = (new.type_id, new.key.clone());
            match (firsts.get(&key), existing.get(&key)) {
                (_, Some(existing)) => Ok(against(existing.clone(), &new.fingerprint)),
                (Some(first), None) if created.contains(&first.id) => {
                    if first.id == new.id && made.insert(first.id) {
                        Ok(Inserted::Created(first.clone()))
                    } else {
                        Ok(against(first.clone(), &new.fingerprint))
                    }
                }
                // Neither inserted nor there: whoever had the key rolled back in between.
                _ => Err(Fault::Conflict("a key was taken and free again".into())),
            }
        });
        let answers = answers.collect::<Result<_, _>>()?;
        Ok((answers, created))
    }

    /// Inserts the rows whose key is free, in order of key; says which.
    pub(super) async fn insert_rows(&self, mut timers: Vec<&Timer>) -> Result<HashSet<TimerId>, Fault> {
        if timers.is_empty() {
            return Ok(HashSet::new());
        }
        timers.sort_by(|a, b| (a.type_id, &a.key).cmp(&(b.type_id, &b.key)));
        let rows = self
            .conn
            .rows(
                "timers.insert",
                &[
                    &column(&timers, |t| t.id.0),
                    &column(&timers, |t| t.namespace_id.0),
                    &column(&timers, |t| t.type_id.0),
                    &column(&timers, |t| t.key.as_str()),
                    &column(&timers, |t| i16::try_from(t.shard()).unwrap_or(i16::MAX)),
                    &column(&timers, |t| t.due_at.as_millis()),
                    &column(&timers, |t| ms(t.run_at)),
                    &column(&timers, |t| t.revision),
                    &column(&timers, |t| t.pinned),
                    &column(&timers, |t| i64::from(t.depth)),
                    &column(&timers, |t| t.created_at.as_millis()),
                    &column(&timers, |t| t.origin.actor.as_str()),
                    &column(&timers, |t| t.origin.fingerprint.as_ref().map(|f| &f[..])),
                    &column(&timers, |t| t.origin.message_id.as_deref()),
                    &column(&timers, |t| &t.head[..]),
                    &column(&timers, |t| (!t.labels.is_empty()).then(|| json_text(&t.labels))),
                    &column(&timers, |t| t.payload.as_str()),
                    &column(&timers, |t| code(t.state.code())),
                    &column(&timers, |t| t.version),
                    &column(&timers, |t| ms(t.settled_at)),
                ],
            )
            .await?;
        rows.iter().map(|row| row::get(row, 0).map(TimerId)).collect()
    }

    /// What stands under the keys of these.
    async fn by_keys(&self, of: &[&Timer]) -> Result<HashMap<Key, Timer>, Fault> {
        if of.is_empty() {
            return Ok(HashMap::new());
        }
        let rows =
            self.conn.rows("timers.by_keys", &[&column(of, |t| t.type_id.0), &column(of, |t| t.key.as_str())]).await?;
        rows.iter().map(|row| row::timer(row).map(|t| ((t.type_id, t.key.clone()), t))).collect()
    }
}
