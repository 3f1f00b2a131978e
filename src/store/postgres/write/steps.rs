//! Acts, settlements and claims of single timers.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    Batch,
    insert::{Key, Registrations, key_of},
    work::{Changes, Work},
};
use crate::{
    domain::{
        id::TimerId,
        machine::Command,
        time::Timestamp,
        timer::{NewTimer, Timer},
    },
    store::{
        op::{Act, Acted, Answer, Claim, Claimed, Inserted, Op, Remember, Settled, Settlement, Target},
        postgres::{connect::Conn, error::Fault, row},
        register::remembered,
        transition::created,
    },
};

/// What a run through the operations comes to.
struct Pass<'a> {
    work: Work<'a>,
    answers: Vec<Answer>,
    by_key: HashMap<Key, TimerId>,
    /// The settlements that took place and have follow-ups, by their place in the batch.
    with_follow_ups: Vec<usize>,
}

/// What became of the follow-ups of the settlements, by those's place in the batch.
type FollowUps = HashMap<usize, Vec<Inserted>>;

impl Batch<'_> {
    pub(super) async fn steps(&self, ops: &[&Op]) -> Result<Vec<Answer>, Fault> {
        let targets = Targets::of(ops);
        let (now, timers) =
            if self.locking { self.lock_targets(targets).await? } else { self.look_up(targets).await? };
        let has_follow_ups = |op: &&Op| matches!(op, Op::Settle(settlement) if !settlement.follow_ups.is_empty());
        if !ops.iter().any(has_follow_ups) {
            let pass = run(Work::new(self.chain, now, timers), ops, &FollowUps::new());
            self.know_types(pass.work.added().map(|timer| timer.type_id.0).collect::<Vec<_>>().into_iter()).await?;
            self.write(Changes { work: &pass.work, new: Vec::new(), runs: Vec::new() }).await?;
            return Ok(pass.answers);
        }
        // Which settlements take place must be known before their follow-ups are made, and what became of those before
        // the settlements' events are written. So all of it is gone through twice.
        let sketch = run(Work::new(self.chain, now, timers.clone()), ops, &FollowUps::new());
        let new: Vec<&NewTimer> = sketch.follow_ups(ops).flat_map(|(_, settlement)| &settlement.follow_ups).collect();
        let known = new.iter().map(|new| new.type_id).chain(sketch.work.added().map(|timer| timer.type_id));
        self.know_types(known.map(|id| id.0).collect::<Vec<_>>().into_iter()).await?;
        let registrations = Registrations::new(new, self.chain, now);
        let mut taken = self.by_keys(&registrations.keys()).await?;
        // What the same batch leaves behind for a key is there before its follow-ups.
        taken.extend(sketch.work.added().map(|timer| (key_of(timer), timer.clone())));
        let mut made = registrations.answers(&taken).into_iter();
        let made_by = |(place, settlement): (usize, &Settlement)| {
            (place, made.by_ref().take(settlement.follow_ups.len()).collect())
        };
        let follow_ups: FollowUps = sketch.follow_ups(ops).map(made_by).collect();
        let pass = run(Work::new(self.chain, now, timers), ops, &follow_ups);
        let new = registrations.timers().filter(|t| !taken.contains_key(&key_of(t))).collect();
        self.write(Changes { work: &pass.work, new, runs: Vec::new() }).await?;
        Ok(pass.answers)
    }

    /// Reads every timer that the operations speak of, and the clock once that is done.
    async fn look_up(&self, targets: Targets<'_>) -> Result<(Timestamp, Vec<Timer>), Fault> {
        let Targets { ids, types, keys } = targets;
        let (by_id, by_key): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 2]) = ([&ids], [&types, &keys]);
        let read = async |is_asked: bool, name: &str, params: &[&(dyn ToSql + Sync)]| {
            if is_asked { self.conn.rows(name, params).await } else { Ok(Vec::new()) }
        };
        let (mut rows, more, now) = tokio::try_join!(
            biased;
            read(!ids.is_empty(), "timers.look", &by_id),
            read(!keys.is_empty(), "timers.by_keys", &by_key),
            self.clock(),
        )?;
        rows.extend(more);
        Ok((now, rows.iter().map(row::timer).collect::<Result<_, _>>()?))
    }

    /// The same with a lock on each, in order of id.
    async fn lock_targets(&self, targets: Targets<'_>) -> Result<(Timestamp, Vec<Timer>), Fault> {
        let Targets { mut ids, types, keys } = targets;
        let params: [&(dyn ToSql + Sync); 2] = [&types, &keys];
        let by_keys = self.conn.rows("timers.ids_by_keys", &params);
        let ((), rows) = tokio::try_join!(biased; self.conn.command("BEGIN"), by_keys)?;
        for row in &rows {
            ids.push(row::get(row, 0)?);
        }
        self.lock(&ids).await
    }

    /// Locks timers in order of id, and reads the clock once that is done.
    pub(super) async fn lock(&self, ids: &[Uuid]) -> Result<(Timestamp, Vec<Timer>), Fault> {
        let params: [&(dyn ToSql + Sync); 1] = [&ids];
        let (rows, now) = tokio::try_join!(biased; self.conn.rows("timers.lock", &params), self.clock())?;
        Ok((now, rows.iter().map(row::timer).collect::<Result<_, _>>()?))
    }
}

/// Which of the operations speak of rows that other transactions hold, by their place.
pub(super) async fn held_by_others(conn: &Conn, ops: &[&Op]) -> Result<HashSet<usize>, Fault> {
    let Targets { ids, types, keys } = Targets::of(ops);
    let mut timers = conn.rows("timers.look", &[&ids]).await?;
    timers.extend(conn.rows("timers.by_keys", &[&types, &keys]).await?);
    let timers: Vec<Timer> = timers.iter().map(row::timer).collect::<Result<_, _>>()?;
    let free = conn.rows("timers.free", &[&row::column(&timers, |timer| timer.id.0)]).await?;
    let free: HashSet<Uuid> = free.iter().map(|row| row::get(row, 0)).collect::<Result<_, _>>()?;
    let held: Vec<Timer> = timers.into_iter().filter(|timer| !free.contains(&timer.id.0)).collect();
    let is_held = |op: &Op| match op {
        Op::Act(Act { target: Target::Key { type_id, key }, .. }) => {
            held.iter().any(|timer| timer.type_id == *type_id && timer.key == *key)
        }
        Op::Act(Act { target: Target::Id { id, .. }, .. })
        | Op::Settle(Settlement { id, .. })
        | Op::Claim(Claim { id, .. }) => held.iter().any(|timer| timer.id == *id),
        _ => false,
    };
    Ok(ops.iter().enumerate().filter(|(_, op)| is_held(op)).map(|(place, _)| place).collect())
}

/// The timers that operations speak of.
struct Targets<'a> {
    ids: Vec<Uuid>,
    types: Vec<i64>,
    keys: Vec<&'a str>,
}

impl<'a> Targets<'a> {
    fn of(ops: &[&'a Op]) -> Self {
        let mut ids = HashSet::<Uuid>::new();
        let mut by_key = HashSet::<(i64, &str)>::new();
        for op in ops {
            match op {
                Op::Act(Act { target: Target::Key { type_id, key }, .. }) => {
                    by_key.insert((type_id.0, key.as_str()));
                }
                Op::Act(Act { target: Target::Id { id, .. }, .. })
                | Op::Settle(Settlement { id, .. })
                | Op::Claim(Claim { id, .. }) => {
                    ids.insert(id.0);
                }
                _ => {}
            }
        }
        let (types, keys) = by_key.into_iter().unzip();
        Self { ids: ids.into_iter().collect(), types, keys }
    }
}

impl Pass<'_> {
    /// The settlements that took place and have follow-ups, by their place in the batch.
    fn follow_ups<'o>(&self, ops: &[&'o Op]) -> impl Iterator<Item = (usize, &'o Settlement)> {
        let of = |place: &usize| match ops[*place] {
            Op::Settle(settlement) => Some((*place, settlement)),
            _ => None,
        };
        self.with_follow_ups.iter().filter_map(of)
    }
}

fn run<'a>(work: Work<'a>, ops: &[&'a Op], follow_ups: &FollowUps) -> Pass<'a> {
    let by_key = work.timers().map(|timer| ((timer.type_id, timer.key.clone()), timer.id)).collect();
    let mut pass = Pass { work, answers: Vec::with_capacity(ops.len()), by_key, with_follow_ups: Vec::new() };
    for (place, op) in ops.iter().enumerate() {
        let answer = match op {
            Op::Act(act) => Answer::Acted(pass.act(act)),
            Op::Claim(claim) => Answer::Claimed(pass.claim(claim)),
            Op::Settle(settlement) => {
                let made = follow_ups.get(&place).map_or(&[][..], Vec::as_slice);
                let settled = pass.settle(settlement, made);
                if matches!(settled, Settled::Done { .. }) && !settlement.follow_ups.is_empty() {
                    pass.with_follow_ups.push(place);
                }
                Answer::Settled(settled)
            }
            _ => unreachable!("asked for with another operation"),
        };
        pass.answers.push(answer);
    }
    pass
}

impl<'a> Pass<'a> {
    fn act(&mut self, act: &'a Act) -> Acted {
        let found = match &act.target {
            Target::Id { namespace_id, id } => self.work.timer(*id).filter(|t| t.namespace_id == *namespace_id),
            Target::Key { type_id, key } => {
                self.by_key.get(&(*type_id, key.clone())).and_then(|id| self.work.timer(*id))
            }
        };
        let Some(timer) = found else {
            return match (&act.target, &act.remember, &act.command, act.expected_version) {
                (Target::Key { type_id, key }, Some(remember), Command::Resolve, None) => {
                    Acted::Done(self.remember(act, (*type_id, key.clone()), remember))
                }
                _ => Acted::NotFound,
            };
        };
        let id = timer.id;
        match act.step(timer, self.work.now) {
            Ok(transition) => self.work.transition(id, transition).map_or(Acted::NotFound, Acted::Done),
            Err(answer) => answer,
        }
    }

    /// Leaves a resolved timer behind for a key that was never seen.
    fn remember(&mut self, act: &Act, key: Key, remember: &Remember) -> Timer {
        let (timer, event) = remembered(act, key.clone(), remember, self.work.chain(), self.work.now);
        self.work.add(timer.clone(), event);
        self.by_key.insert(key, timer.id);
        timer
    }

    fn settle(&mut self, settlement: &'a Settlement, made: &[Inserted]) -> Settled {
        let Some(timer) = self.work.timer(settlement.id) else { return Settled::Gone };
        let change = match settlement.step(timer, self.work.now) {
            Ok(change) => change,
            Err(answer) => return answer,
        };
        match self.work.transition(settlement.id, settlement.transition(change, made)) {
            Some(timer) => Settled::Done { timer, follow_ups: created(made) },
            None => Settled::Gone,
        }
    }

    fn claim(&mut self, claim: &Claim) -> Claimed {
        let Some(timer) = self.work.timer(claim.id) else { return Claimed::Gone };
        match claim.step(timer, self.work.now) {
            Ok(transition) => self.work.transition(claim.id, transition).map_or(Claimed::Gone, Claim::answer),
            Err(answer) => answer,
        }
    }
}
