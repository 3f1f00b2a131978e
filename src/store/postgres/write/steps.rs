//! Acts, settlements and claims of single timers.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::{Batch, insert::Key, work::Work};
use crate::{
    domain::{
        id::TimerId,
        machine::Command,
        time::Timestamp,
        timer::{NewTimer, Timer},
    },
    store::{
        op::{Act, Acted, Answer, Claim, Claimed, Inserted, Op, Remember, Settled, Settlement, Target},
        postgres::{error::Fault, row},
        register::remembered,
        transition::created,
    },
};

/// What a run through the operations comes to.
struct Pass<'a> {
    work: Work<'a>,
    answers: Vec<Option<Answer>>,
    by_key: HashMap<Key, TimerId>,
    /// Timers for keys that were never seen, to be inserted.
    remembered: Vec<Timer>,
    /// The settlements that took place and have follow-ups, by their place in the batch.
    with_follow_ups: Vec<usize>,
}

/// What became of the follow-ups of the settlements, by those's place in the batch.
type FollowUps = HashMap<usize, Vec<Inserted>>;

impl Batch<'_> {
    /// Steps first, in order, then claims of the backlog: what waits side by side has no order among itself, and this
    /// way all rows are locked in one go.
    pub(super) async fn timers(&mut self, begin: Option<&str>, ops: &[Op]) -> Result<Vec<Answer>, Fault> {
        let mut begin = begin;
        let mut answers = if ops.iter().all(|op| matches!(op, Op::ClaimBacklog(_))) {
            vec![None; ops.len()]
        } else {
            self.steps(begin.take(), ops).await?
        };
        for (op, answer) in ops.iter().zip(&mut answers) {
            if let Op::ClaimBacklog(claim) = op {
                *answer = Some(Answer::Backlog(self.claim_backlog(begin.take(), claim).await?));
            }
        }
        answers
            .into_iter()
            .map(|answer| answer.ok_or_else(|| Fault::Data("an operation without an answer".into())))
            .collect()
    }

    async fn steps(&mut self, begin: Option<&str>, ops: &[Op]) -> Result<Vec<Option<Answer>>, Fault> {
        let (now, locked) = self.lock_targets(begin, ops).await?;
        let chain = self.chain;
        let has_follow_ups = |op: &Op| matches!(op, Op::Settle(settlement) if !settlement.follow_ups.is_empty());
        let pass = if ops.iter().any(has_follow_ups) {
            // Which settlements take place must be known before their follow-ups are made, and what became of those
            // before the settlements' events are written. So all of it is gone through twice.
            let sketch = run(Work::new(chain, now, locked.clone()), ops, &FollowUps::new());
            let follow_ups = self.follow_ups(now, ops, &sketch).await?;
            run(Work::new(chain, now, locked), ops, &follow_ups)
        } else {
            let pass = run(Work::new(chain, now, locked), ops, &FollowUps::new());
            self.remember(&pass.remembered, &[], now).await?;
            pass
        };
        self.flush(pass.work).await?;
        Ok(pass.answers)
    }

    /// Locks every timer that the operations speak of, in order of id.
    async fn lock_targets(&self, begin: Option<&str>, ops: &[Op]) -> Result<(Timestamp, Vec<Timer>), Fault> {
        let mut ids = HashSet::<Uuid>::new();
        let (mut types, mut keys) = (Vec::new(), Vec::new());
        for op in ops {
            match op {
                Op::Act(Act { target: Target::Key { type_id, key }, .. }) => {
                    types.push(type_id.0);
                    keys.push(key.as_str());
                }
                Op::Act(Act { target: Target::Id { id, .. }, .. })
                | Op::Settle(Settlement { id, .. })
                | Op::Claim(Claim { id, .. }) => {
                    ids.insert(id.0);
                }
                _ => {}
            }
        }
        let mut begin = begin;
        if !keys.is_empty() {
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&types, &keys];
            let by_keys = self.conn.rows("timers.ids_by_keys", &params);
            let ((), rows) = tokio::try_join!(biased; self.begin(begin.take()), by_keys)?;
            for row in &rows {
                ids.insert(row::get(row, 0)?);
            }
        }
        let (locked, now) = self.lock(begin, ids.into_iter().collect()).await?;
        Ok((now, locked))
    }

    /// Locks timers in order of id, and reads the clock once that is done.
    pub(super) async fn lock(&self, begin: Option<&str>, ids: Vec<Uuid>) -> Result<(Vec<Timer>, Timestamp), Fault> {
        let params: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&ids];
        let rows = self.conn.rows("timers.lock", &params);
        let ((), rows, now) = tokio::try_join!(biased; self.begin(begin), rows, self.clock())?;
        Ok((rows.iter().map(row::timer).collect::<Result<_, _>>()?, now))
    }

    async fn follow_ups(&mut self, now: Timestamp, ops: &[Op], sketch: &Pass<'_>) -> Result<FollowUps, Fault> {
        let mut new = Vec::<&NewTimer>::new();
        let mut counts = Vec::new();
        for &index in &sketch.with_follow_ups {
            if let Op::Settle(settlement) = &ops[index] {
                new.extend(&settlement.follow_ups);
                counts.push((index, settlement.follow_ups.len()));
            }
        }
        let mut made = self.remember(&sketch.remembered, &new, now).await?.into_iter();
        Ok(counts.into_iter().map(|(index, count)| (index, made.by_ref().take(count).collect())).collect())
    }

    /// Inserts the remembered timers and the new ones, all in order of key.
    async fn remember(
        &mut self,
        remembered: &[Timer],
        new: &[&NewTimer],
        now: Timestamp,
    ) -> Result<Vec<Inserted>, Fault> {
        if remembered.is_empty() && new.is_empty() {
            return Ok(Vec::new());
        }
        let (inserted, created) = self.register(now, new, remembered).await?;
        if remembered.iter().all(|timer| created.contains(&timer.id)) {
            Ok(inserted)
        } else {
            // Registered since the keys were looked up: the act finds its timer the next time.
            Err(Fault::Conflict("a key was registered meanwhile".into()))
        }
    }
}

fn run<'a>(work: Work<'a>, ops: &'a [Op], follow_ups: &FollowUps) -> Pass<'a> {
    let by_key = work.timers().map(|timer| ((timer.type_id, timer.key.clone()), timer.id)).collect();
    let mut pass = Pass {
        work,
        answers: Vec::with_capacity(ops.len()),
        by_key,
        remembered: Vec::new(),
        with_follow_ups: Vec::new(),
    };
    for (index, op) in ops.iter().enumerate() {
        let answer = match op {
            Op::Act(act) => Some(Answer::Acted(pass.act(act))),
            Op::Claim(claim) => Some(Answer::Claimed(pass.claim(claim))),
            Op::Settle(settlement) => {
                let made = follow_ups.get(&index).map_or(&[][..], Vec::as_slice);
                let settled = pass.settle(settlement, made);
                if matches!(settled, Settled::Done { .. }) && !settlement.follow_ups.is_empty() {
                    pass.with_follow_ups.push(index);
                }
                Some(Answer::Settled(settled))
            }
            _ => None,
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

    fn remember(&mut self, act: &Act, key: Key, remember: &Remember) -> Timer {
        let (timer, event) = remembered(act, key.clone(), remember, self.work.chain(), self.work.now);
        self.work.add(timer.clone(), event);
        self.by_key.insert(key, timer.id);
        self.remembered.push(timer.clone());
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
