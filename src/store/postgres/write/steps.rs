//! Acts, settlements and claims of single timers.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    Batch,
    insert::Key,
    work::{Cause, Transition, Work, merge},
};
use crate::{
    domain::{
        audit::{Chain, Event, EventKind},
        id::TimerId,
        machine::{self, Command, Refusal},
        time::Timestamp,
        timer::{NewTimer, Origin, State, Timer, Trigger},
    },
    store::{
        op::{Act, Acted, Answer, Claim, Claimed, Inserted, Op, Remember, Settled, Settlement, Target},
        postgres::{error::Fault, row},
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
        if act.expected_version.is_some_and(|expected| expected != timer.version) {
            return Acted::VersionConflict(timer.clone());
        }
        let change = match machine::step(timer, &act.command, self.work.now) {
            Ok(change) => change,
            Err(Refusal::Same) => return Acted::Same(timer.clone()),
            Err(Refusal::TooLate) => return Acted::TooLate(timer.clone()),
            Err(Refusal::Firing) => return Acted::Firing(timer.clone()),
            Err(Refusal::WrongState | Refusal::Early) => return Acted::WrongState(timer.clone()),
            Err(Refusal::OutOfRange) => return Acted::OutOfRange,
        };
        let cause = Cause { actor: &act.actor, trigger: None, digest: None, message_id: act.message_id.as_deref() };
        let id = timer.id;
        let transition = Transition { change, cause, detail: reason(act), compensations: &[], revision: 0 };
        self.work.transition(id, transition).map_or(Acted::NotFound, Acted::Done)
    }

    /// Leaves a resolved timer behind for a key that was never seen: what is registered after its payment finds it.
    fn remember(&mut self, act: &Act, key: Key, remember: &Remember) -> Timer {
        let (timer, event) = remembered(self.work.chain(), self.work.now, act, &key, remember);
        self.work.add(timer.clone(), &event);
        self.by_key.insert(key, timer.id);
        self.remembered.push(timer.clone());
        timer
    }

    fn settle(&mut self, settlement: &'a Settlement, made: &[Inserted]) -> Settled {
        let Some(timer) = self.work.timer(settlement.id) else { return Settled::Gone };
        if timer.version != settlement.version {
            let timer = timer.clone();
            return if timer.state.is_settled() { Settled::Lost(timer) } else { Settled::Moved(timer) };
        }
        let command = Command::Settle(settlement.settle.clone());
        let change = match machine::step(timer, &command, self.work.now) {
            Ok(change) => change,
            Err(Refusal::Early) => return Settled::Early(timer.clone()),
            Err(_) => return Settled::Lost(timer.clone()),
        };
        let transition = Transition {
            change,
            cause: Cause {
                actor: &settlement.actor,
                trigger: Some(settlement.trigger),
                digest: settlement.digest,
                message_id: None,
            },
            detail: settle_detail(settlement, made),
            compensations: &settlement.compensations,
            revision: settlement.revision,
        };
        let follow_ups = made.iter().filter_map(|inserted| match inserted {
            Inserted::Created(timer) => Some(timer.clone()),
            _ => None,
        });
        match self.work.transition(settlement.id, transition) {
            Some(timer) => Settled::Done { timer, follow_ups: follow_ups.collect() },
            None => Settled::Gone,
        }
    }

    fn claim(&mut self, claim: &Claim) -> Claimed {
        let Some(timer) = self.work.timer(claim.id) else { return Claimed::Gone };
        if timer.version != claim.version {
            let timer = timer.clone();
            return if timer.state.is_settled() { Claimed::Lost(timer) } else { Claimed::Moved(timer) };
        }
        let change = match machine::step(timer, &Command::Claim { lease: claim.lease }, self.work.now) {
            Ok(change) => change,
            Err(Refusal::Early) => return Claimed::Early(timer.clone()),
            Err(Refusal::Firing) => return Claimed::Moved(timer.clone()),
            Err(_) => return Claimed::Lost(timer.clone()),
        };
        match self.work.transition(claim.id, claimed_by(change, claim.trigger, &claim.node)) {
            Some(timer) if timer.state == State::Firing => Claimed::Done(timer),
            Some(timer) => Claimed::Lost(timer),
            None => Claimed::Gone,
        }
    }
}

pub(super) fn claimed_by(change: machine::Change, trigger: Trigger, node: &str) -> Transition<'static> {
    Transition {
        change,
        cause: Cause { trigger: Some(trigger), ..Cause::ENGINE },
        detail: json!({ "node": node }),
        compensations: &[],
        revision: 0,
    }
}

fn remembered(chain: &Chain, now: Timestamp, act: &Act, key: &Key, remember: &Remember) -> (Timer, Event) {
    let mut timer = Timer {
        id: remember.id,
        namespace_id: remember.namespace_id,
        type_id: key.0,
        key: key.1.clone(),
        payload: "null".into(),
        labels: std::collections::BTreeMap::new(),
        state: State::Resolved,
        due_at: now,
        run_at: None,
        attempt: 1,
        lapses: 0,
        version: 2,
        revision: remember.revision,
        pinned: false,
        manual: false,
        depth: 0,
        created_at: now,
        settled_at: Some(now),
        outcome: None,
        origin: Origin { actor: act.actor.clone(), due_at: now, fingerprint: None, message_id: act.message_id.clone() },
        head: [0; 32],
    };
    let event = Event {
        timer_id: timer.id,
        seq: 2,
        at: now,
        kind: EventKind::Resolved,
        actor: act.actor.clone(),
        state_before: Some(State::Scheduled),
        state_after: State::Resolved,
        version: 2,
        attempt: 1,
        trigger: None,
        digest: None,
        message_id: act.message_id.clone(),
        detail: merge(json!({ "remembered": true }), reason(act)),
    };
    timer.head = chain.link(&chain.first(&timer), &event.body());
    (timer, event)
}

fn reason(act: &Act) -> Value {
    act.reason.as_ref().map_or(Value::Null, |reason| json!({ "reason": reason }))
}

fn settle_detail(settlement: &Settlement, made: &[Inserted]) -> Value {
    let mut more = serde_json::Map::new();
    if !settlement.follow_ups.is_empty() {
        let notes: Vec<Value> = settlement.follow_ups.iter().zip(made).map(|(new, made)| note(new, made)).collect();
        more.insert("follow_ups".into(), notes.into());
    }
    if !settlement.events.is_empty() {
        more.insert("events".into(), json!(settlement.events));
    }
    if !settlement.counters.is_empty() {
        more.insert("counters".into(), json!(settlement.counters));
    }
    if more.is_empty() { settlement.detail.clone() } else { merge(settlement.detail.clone(), Value::Object(more)) }
}

fn note(new: &NewTimer, made: &Inserted) -> Value {
    let (id, result) = match made {
        Inserted::Created(timer) => (Some(timer.id), "created"),
        Inserted::Same(timer) => (Some(timer.id), "exists"),
        Inserted::Conflict(timer) => (Some(timer.id), "conflict"),
        Inserted::OutOfRange => (None, "out_of_range"),
    };
    json!({ "type_id": new.type_id, "key": new.key, "timer_id": id, "result": result })
}
