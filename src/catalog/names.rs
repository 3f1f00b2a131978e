//! Names that a type's plugins make up as they run: kinds of compensations, and counters.
//!
//! Each kind is a lane with places of its own, and each name is a label of metrics, kept as long as the node runs. A plugin
//! that put ids into them would use both up, so there are only so many of a type.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::domain::id::Name;

/// Kinds of compensations of one type.
pub const MAX_KINDS: usize = 100;
/// Counters of one type that are told apart.
const MAX_COUNTERS: usize = 100;
/// What all others are counted under.
const OTHER: &str = "other";

#[derive(Default)]
pub struct Names {
    kinds: Mutex<HashSet<Name>>,
    counters: Mutex<HashSet<Name>>,
}

impl Names {
    /// Whether a compensation may be of this kind.
    pub fn admit_kind(&self, kind: &Name) -> bool {
        admit(&mut self.kinds.lock(), kind, MAX_KINDS)
    }

    /// The label that a counter has.
    pub fn counter<'a>(&self, name: &'a Name) -> &'a str {
        if admit(&mut self.counters.lock(), name, MAX_COUNTERS) { name.as_str() } else { OTHER }
    }
}

fn admit(names: &mut HashSet<Name>, name: &Name, most: usize) -> bool {
    names.contains(name) || (names.len() < most && names.insert(name.clone()))
}
