//! Group commit: a writer takes as its next batch whatever arrived while it committed the last. There is no timer, so an
//! idle store writes at once, and a busy one in large batches. A driver says in how many lanes it writes: each has a
//! writer of its own over the queues of its classes.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};
use serde_json::Value;
use tokio::sync::{Notify, oneshot, watch};

use super::{
    Driver, Error, Observer, Result,
    admin::{AdminAnswer, AdminOp},
    op::{Acted, Answer, Claimed, Class, Inserted, Lane, Op, Settled, Settlement},
};

/// Bounds of the queues and batches.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Operations of one class that may wait.
    pub queue: usize,
    /// Operations in one transaction.
    pub batch: usize,
    /// Bytes of payload in one transaction.
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { queue: 20_000, batch: 500, batch_bytes: 1024 * 1024 }
    }
}

/// The part of a batch, in percent, that a class is sure of while others wait too; what one leaves goes to the others
/// in order.
const fn share(class: Class) -> usize {
    match class {
        Class::Act | Class::Settle => 30,
        Class::Insert => 25,
        Class::Compensation => 10,
        Class::Admin => 5,
    }
}

/// What an operation takes beside its payload: its row's other columns, and its events.
const OVERHEAD_BYTES: usize = 512;

struct Waiting {
    op: Op,
    bytes: usize,
    answer: oneshot::Sender<Result<Answer>>,
}

#[derive(Default)]
struct Queues {
    by_class: [VecDeque<Waiting>; Class::ALL.len()],
    stopping: bool,
}

struct Inner {
    queues: Mutex<Queues>,
    /// One for each of the driver's lanes.
    lanes: Vec<Running>,
    observers: RwLock<Vec<Arc<dyn Observer>>>,
    limits: Limits,
    /// Writers that have not ended.
    running: watch::Sender<usize>,
}

struct Running {
    classes: &'static [Class],
    arrived: Notify,
}

/// The handles' share of the writer's life: when the last one goes, the writer writes what is queued and ends.
struct Handle(Arc<Inner>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.refuse_new();
    }
}

#[derive(Clone)]
pub(super) struct Group {
    handle: Arc<Handle>,
}

impl Group {
    pub(super) fn start(driver: Arc<dyn Driver>, limits: Limits) -> Self {
        let lanes = driver.lanes();
        debug_assert!(Class::ALL.iter().all(|c| lanes.iter().any(|lane| lane.contains(c))), "each class has a lane");
        let inner = Arc::new(Inner {
            queues: Mutex::default(),
            lanes: lanes.iter().map(|classes| Running { classes, arrived: Notify::new() }).collect(),
            observers: RwLock::default(),
            limits,
            running: watch::Sender::new(lanes.len()),
        });
        for lane in 0..lanes.len() {
            let writer = Writer { inner: Arc::clone(&inner), driver: Arc::clone(&driver), lane };
            tokio::spawn(writer.run());
        }
        Self { handle: Arc::new(Handle(inner)) }
    }

    pub(super) fn observe(&self, observer: Arc<dyn Observer>) {
        self.handle.0.observers.write().push(observer);
    }

    pub(super) async fn submit(&self, op: Op) -> Result<Answer> {
        let bytes = op_bytes(&op);
        let class = op.class();
        let (answer, answered) = oneshot::channel();
        {
            let mut queues = self.handle.0.queues.lock();
            if queues.stopping {
                return Err(Error::Stopped);
            }
            let queue = &mut queues.by_class[class as usize];
            if queue.len() >= self.handle.0.limits.queue {
                return Err(Error::Full);
            }
            queue.push_back(Waiting { op, bytes, answer });
        }
        self.handle.0.wake(|lane| lane.classes.contains(&class));
        answered.await.unwrap_or_else(|_| Err(Error::OutcomeUnknown("the writer broke off".into())))
    }

    /// Writes what is queued, and refuses what comes after.
    pub(super) async fn stop(&self) {
        self.handle.0.refuse_new();
        let mut running = self.handle.0.running.subscribe();
        // An error means that the sender is gone, which it cannot be while this handle holds it.
        let _ = running.wait_for(|running| *running == 0).await;
    }
}

impl Inner {
    fn refuse_new(&self) {
        self.queues.lock().stopping = true;
        self.wake(|_| true);
    }

    fn wake(&self, which: impl Fn(&Running) -> bool) {
        self.lanes.iter().filter(|lane| which(lane)).for_each(|lane| lane.arrived.notify_one());
    }
}

struct Writer {
    inner: Arc<Inner>,
    driver: Arc<dyn Driver>,
    lane: usize,
}

impl Drop for Writer {
    /// Also when a driver panics: nobody may wait for an answer that will never come.
    fn drop(&mut self) {
        let left: Vec<VecDeque<Waiting>> = {
            let mut queues = self.inner.queues.lock();
            queues.stopping = true;
            self.classes().iter().map(|class| std::mem::take(&mut queues.by_class[*class as usize])).collect()
        };
        for waiting in left.into_iter().flatten() {
            let _ = waiting.answer.send(Err(Error::Stopped));
        }
        self.inner.wake(|_| true);
        self.inner.running.send_modify(|running| *running -= 1);
    }
}

impl Writer {
    fn classes(&self) -> &'static [Class] {
        self.inner.lanes[self.lane].classes
    }

    async fn run(self) {
        loop {
            let batch = {
                let mut queues = self.inner.queues.lock();
                let batch = take_batch(&mut queues.by_class, self.classes(), self.inner.limits);
                if batch.is_empty() && queues.stopping {
                    return;
                }
                for class in self.classes() {
                    let depth = u32::try_from(queues.by_class[*class as usize].len()).unwrap_or(u32::MAX);
                    metrics::gauge!("lapse_store_queue_depth", "class" => class.as_str()).set(depth);
                }
                batch
            };
            if batch.is_empty() {
                self.inner.lanes[self.lane].arrived.notified().await;
            } else {
                self.write(batch).await;
            }
        }
    }

    /// Writes a batch. If it is refused for its data, its halves are tried by themselves, until the bad operation
    /// stands alone: at most twice as many transactions as there are operations.
    async fn write(&self, batch: Vec<Waiting>) {
        let whole: (Vec<Op>, Vec<_>) = batch.into_iter().map(|w| (w.op, w.answer)).unzip();
        let mut parts = vec![whole];
        while let Some((ops, mut senders)) = parts.pop() {
            let ops = Arc::new(ops);
            let started = Instant::now();
            let result = self.driver.write(Arc::clone(&ops)).await;
            record(ops.len(), started.elapsed());
            match result {
                Ok(answers) => {
                    debug_assert_eq!(answers.len(), ops.len(), "an answer for each operation");
                    self.tell(&ops, &answers);
                    for (sender, answer) in senders.into_iter().zip(answers) {
                        let answer = match answer {
                            Answer::Refused(error) => Err(error),
                            answer => Ok(answer),
                        };
                        // Whoever asked may have gone; what was written stands.
                        let _ = sender.send(answer);
                    }
                }
                Err(Error::Data(_)) if ops.len() > 1 => {
                    let mut ops = Arc::try_unwrap(ops).unwrap_or_else(|shared| (*shared).clone());
                    let half = ops.len() / 2;
                    let second = (ops.split_off(half), senders.split_off(half));
                    parts.push(second);
                    parts.push((ops, senders));
                }
                Err(error) => {
                    for sender in senders {
                        let _ = sender.send(Err(error.clone()));
                    }
                }
            }
        }
    }

    fn tell(&self, ops: &[Op], answers: &[Answer]) {
        let observers = self.inner.observers.read();
        if observers.is_empty() {
            return;
        }
        for (op, answer) in ops.iter().zip(answers) {
            for observer in &*observers {
                tell_one(&**observer, op, answer);
            }
        }
    }
}

fn tell_one(observer: &dyn Observer, op: &Op, answer: &Answer) {
    match answer {
        Answer::Inserted(Inserted::Created(timer))
        | Answer::Acted(Acted::Done(timer))
        | Answer::Claimed(Claimed::Done(timer)) => observer.timer_written(timer),
        Answer::Inserted(Inserted::Same(timer)) => observer.timer_found(timer),
        Answer::Settled(Settled::Done { timer, follow_ups }) => {
            observer.timer_written(timer);
            for timer in follow_ups {
                observer.timer_written(timer);
            }
            if let Op::Settle(settlement) = op {
                let kinds: std::collections::BTreeSet<_> =
                    settlement.compensations.iter().map(|(_, spec)| &spec.kind).collect();
                let now = timer.settled_at.unwrap_or(timer.created_at);
                for kind in kinds {
                    observer.compensation_written(timer.type_id, kind, now);
                }
            }
        }
        Answer::Backlog(backlog) => {
            backlog.claimed.iter().chain(&backlog.poisoned).for_each(|t| observer.timer_written(t));
        }
        Answer::Finished(finished) => finished.again.iter().for_each(|lane| tell_lane(observer, lane)),
        Answer::Redriven(redriving) => redriving.lanes.iter().for_each(|lane| tell_lane(observer, lane)),
        Answer::Admin(admin)
            if !matches!(admin, AdminAnswer::NotFirst | AdminAnswer::NotFound | AdminAnswer::Sealed { .. }) =>
        {
            observer.catalogue_written();
        }
        Answer::Admin(_)
        | Answer::Inserted(_)
        | Answer::Acted(_)
        | Answer::Settled(_)
        | Answer::Claimed(_)
        | Answer::Compensations(_)
        | Answer::Pong(())
        | Answer::Refused(_) => {}
    }
}

fn tell_lane(observer: &dyn Observer, lane: &Lane) {
    observer.compensation_written(lane.type_id, &lane.kind, lane.run_at);
}

#[expect(clippy::cast_precision_loss, reason = "a batch is far smaller than 2^52")]
fn record(operations: usize, elapsed: Duration) {
    metrics::histogram!("lapse_store_commit_seconds").record(elapsed);
    metrics::histogram!("lapse_store_batch_size").record(operations as f64);
}

/// First each class's share, then what is left in order of class; the batch itself is in order of class.
fn take_batch(queues: &mut [VecDeque<Waiting>; Class::ALL.len()], classes: &[Class], limits: Limits) -> Vec<Waiting> {
    let mut taken: [Vec<Waiting>; Class::ALL.len()] = Default::default();
    let (mut ops, mut bytes) = (0, 0);
    for &class in classes {
        let (queue, taken) = (&mut queues[class as usize], &mut taken[class as usize]);
        let most_ops = (limits.batch * share(class) / 100).max(1);
        let most_bytes = limits.batch_bytes * share(class) / 100;
        let mut class_bytes = 0;
        while let Some(next) = queue.front() {
            // One larger than its share goes all the same, or it would wait for ever.
            let fits = taken.is_empty() || class_bytes + next.bytes <= most_bytes;
            if ops >= limits.batch.max(1) || taken.len() >= most_ops || !fits {
                break;
            }
            class_bytes += next.bytes;
            ops += 1;
            taken.extend(queue.pop_front());
        }
        bytes += class_bytes;
    }
    for &class in classes {
        let queue = &mut queues[class as usize];
        while let Some(next) = queue.front() {
            if ops >= limits.batch || bytes + next.bytes > limits.batch_bytes {
                break;
            }
            bytes += next.bytes;
            ops += 1;
            taken[class as usize].extend(queue.pop_front());
        }
    }
    taken.into_iter().flatten().collect()
}

/// Roughly how much an operation adds to its transaction.
fn op_bytes(op: &Op) -> usize {
    let payload = match op {
        Op::Insert(timer) => timer.payload.len(),
        Op::Settle(settlement) => settlement_bytes(settlement),
        Op::ClaimBacklog(claim) => claim.limits.iter().map(|(_, limit)| limit * OVERHEAD_BYTES).sum(),
        Op::ClaimCompensations(claim) => claim.limit * OVERHEAD_BYTES,
        Op::FinishCompensation(finish) => value_bytes(&finish.detail),
        Op::Admin(AdminOp::PutPlugin { bytes, .. }) => bytes.len(),
        Op::Act(_) | Op::Claim(_) | Op::Redrive(_) | Op::Admin(_) | Op::Ping => 0,
    };
    OVERHEAD_BYTES + payload
}

fn settlement_bytes(settlement: &Settlement) -> usize {
    let compensations = settlement.compensations.iter().map(|(_, spec)| OVERHEAD_BYTES + spec.payload.len());
    let follow_ups = settlement.follow_ups.iter().map(|timer| OVERHEAD_BYTES + timer.payload.len());
    let events = settlement.events.iter().map(|event| event.data.get().len());
    compensations.chain(follow_ups).chain(events).sum::<usize>() + value_bytes(&settlement.detail)
}

/// The depth is bounded by that of the JSON which it was read from.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(s) => s.len(),
        Value::Array(items) => items.iter().map(value_bytes).sum(),
        Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + value_bytes(value)).sum(),
    }
}
