//! CPU time and memory of processes, as the kernel counts them; nothing where there is no `/proc`.

use std::{
    collections::HashMap,
    fs,
    str::FromStr,
    sync::Mutex,
    time::{Duration, Instant},
};

use serde::Serialize;

/// The kernel's unit of CPU time for user space: 1/100 s.
const TICK: Duration = Duration::from_millis(10);

/// A process that is watched with all that it has started.
#[derive(Clone, Debug)]
pub struct Watched {
    pub name: String,
    pub pid: u32,
}

impl FromStr for Watched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, pid) = text.split_once('=').ok_or("give it as NAME=PID")?;
        let pid = pid.parse().map_err(|_| format!("{pid:?} is not the number of a process"))?;
        Ok(Self { name: name.to_owned(), pid })
    }
}

/// The part of one core that a process took.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    pub name: String,
    pub percent: f64,
}

pub fn describe(shares: &[Share]) -> String {
    let each: Vec<String> = shares.iter().map(|s| format!("{} {:.0}%", s.name, s.percent)).collect();
    if each.is_empty() { "not watched".into() } else { each.join(", ") }
}

impl Watched {
    /// What is resident.
    pub fn memory_bytes(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
    }
}

/// The fields of `/proc/PID/stat` after the name in brackets, which may hold spaces: the second is the parent, the 12th
/// to 15th are the CPU time in user space and in the kernel, its own and that of children which have ended.
fn stat(pid: u32) -> Option<Vec<u64>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(|f| f.parse().unwrap_or(0)).collect())
}

/// CPU time of each and of its children.
fn cpu(watched: &[Watched]) -> Vec<Duration> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let stats: HashMap<u32, Vec<u64>> = pids.filter_map(|pid| Some((pid, stat(pid)?))).collect();
    let ticks = |fields: &Vec<u64>| fields.get(11..15).map_or(0, |f| f.iter().sum());
    let of = |pid: u32| {
        let children = stats.values().filter(|f| f.get(1) == Some(&u64::from(pid)));
        let all: u64 = stats.get(&pid).into_iter().chain(children).map(ticks).sum();
        TICK * u32::try_from(all).unwrap_or(u32::MAX)
    };
    watched.iter().map(|w| of(w.pid)).collect()
}

/// What is measured between the first and the last mark.
pub struct Usage<'a> {
    watched: &'a [Watched],
    marks: Mutex<Vec<(Instant, Vec<Duration>)>>,
}

impl<'a> Usage<'a> {
    pub fn begin(watched: &'a [Watched]) -> Self {
        Self { watched, marks: Mutex::default() }
    }

    pub fn mark(&self) {
        let mark = (Instant::now(), cpu(self.watched));
        self.marks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(mark);
    }

    /// Between the first two marks.
    pub fn end(self) -> Vec<Share> {
        let marks = self.marks.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let [(from, before), (until, after), ..] = &marks[..] else { return Vec::new() };
        let took = until.duration_since(*from).as_secs_f64().max(0.001);
        let each = self.watched.iter().zip(before.iter().zip(after));
        each.map(|(w, (before, after))| Share {
            name: w.name.clone(),
            percent: after.saturating_sub(*before).as_secs_f64() / took * 100.0,
        })
        .collect()
    }
}
