//! From where the backlog is looked for.
//!
//! An index keeps an entry for each version of a row until no open transaction can see it. With one long transaction
//! standing somewhere, a scan from the beginning walks over every entry that was ever claimed, again and again. So a scan
//! begins at a mark, which lies where an earlier scan found nothing left below. That holds because `run_at` is never
//! written in the past, but for transactions that were under way at that scan: they may yet commit, or roll back and
//! leave what the scan skipped as locked. Hence the mark takes effect only when all of those must have ended; and the
//! whole is scanned at the start and now and then, for clocks that were set back.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::domain::{id::TypeId, timer::State};

/// How far marks lag, and how often they are set aside.
#[derive(Clone, Copy, Debug)]
pub struct MarkLimits {
    /// Longer than any transaction of ours can last: the client's bound on one, and the server's on a statement and on
    /// idleness behind it.
    pub lag: Duration,
    pub whole_every: Duration,
}

impl Default for MarkLimits {
    fn default() -> Self {
        Self { lag: Duration::from_mins(1), whole_every: Duration::from_mins(10) }
    }
}

/// A trail has about so many entries.
const TRAIL: u32 = 60;

/// A type's timers of one state.
pub(super) type Part = (TypeId, State);

#[derive(Default)]
struct Mark {
    /// In milliseconds: nothing that is left lies below.
    low: i64,
    /// Marks that do not yet hold, with the instant of their scan, oldest first.
    trail: VecDeque<(Instant, i64)>,
    whole_at: Option<Instant>,
}

/// A scan that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub part: Part,
    /// Where it begins, in milliseconds.
    pub low: i64,
    started: Instant,
    whole: bool,
}

pub(super) struct Marks {
    limits: MarkLimits,
    by_part: Mutex<HashMap<Part, Mark>>,
}

impl Marks {
    pub(super) fn new(limits: MarkLimits) -> Self {
        Self { limits, by_part: Mutex::default() }
    }

    pub(super) fn begin(&self, part: Part, now: Instant) -> Scan {
        let mut by_part = self.by_part.lock();
        let mark = by_part.entry(part).or_default();
        if mark.whole_at.is_none_or(|at| at <= now) {
            return Scan { part, low: 0, started: now, whole: true };
        }
        while let Some((_, low)) = mark.trail.pop_front_if(|(since, _)| now.duration_since(*since) >= self.limits.lag) {
            mark.low = mark.low.max(low);
        }
        Scan { part, low: mark.low, started: now, whole: false }
    }

    /// The next scan of these types is of the whole. A scan that is under way cannot undo that: it began at a mark, and
    /// only a whole one sets the next time for one.
    pub(super) fn forget(&self, types: &[TypeId]) {
        self.by_part.lock().retain(|(type_id, _), _| !types.contains(type_id));
    }

    /// The scan's transaction has committed, and nothing is left below `frontier` but what others had locked.
    pub(super) fn reached(&self, scan: &Scan, frontier: i64) {
        let mut by_part = self.by_part.lock();
        let mark = by_part.entry(scan.part).or_default();
        if scan.whole {
            *mark = Mark { whole_at: Some(scan.started + self.limits.whole_every), ..Mark::default() };
        }
        if mark
            .trail
            .back()
            .is_none_or(|(since, _)| scan.started.saturating_duration_since(*since) >= self.limits.lag / TRAIL)
        {
            mark.trail.push_back((scan.started, frontier));
        }
    }
}
