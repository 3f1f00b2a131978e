//! A pause of firing: of a type, of a namespace, or of everything. What is registered waits, and nothing is lost.

use std::collections::HashMap;

use super::{
    id::{NamespaceId, TypeId},
    time::Timestamp,
};

/// What is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    All,
    Namespace(NamespaceId),
    Type(TypeId),
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Namespace(_) => "namespace",
            Self::Type(_) => "type",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    pub scope: Scope,
    /// Why, for people.
    pub reason: String,
    pub since: Timestamp,
    /// When it ends by itself; exclusive. `None`: when somebody resumes.
    pub until: Option<Timestamp>,
    /// Who paused it, or changed the pause last.
    pub by: String,
}

impl Pause {
    /// Whether it holds at `now`, the store's time.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}

/// Every pause that is written down; some may have ended by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pauses(HashMap<Scope, Pause>);

impl FromIterator<Pause> for Pauses {
    fn from_iter<T: IntoIterator<Item = Pause>>(pauses: T) -> Self {
        Self(pauses.into_iter().map(|pause| (pause.scope, pause)).collect())
    }
}

impl Pauses {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pause of exactly this scope that holds at `now`.
    pub fn at(&self, scope: Scope, now: Timestamp) -> Option<&Pause> {
        self.0.get(&scope).filter(|pause| pause.holds(now))
    }

    /// What keeps a type's timers from firing at `now`: the narrowest pause, if there are several.
    pub fn of(&self, namespace: NamespaceId, type_id: TypeId, now: Timestamp) -> Option<&Pause> {
        let scopes = [Scope::Type(type_id), Scope::Namespace(namespace), Scope::All];
        scopes.into_iter().find_map(|scope| self.at(scope, now))
    }

    /// All that hold at `now`, in no order.
    pub fn holding(&self, now: Timestamp) -> impl Iterator<Item = &Pause> {
        self.0.values().filter(move |pause| pause.holds(now))
    }
}
