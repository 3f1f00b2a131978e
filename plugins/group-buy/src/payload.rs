//! What a timer of the type carries, as the schemas have it.

use std::collections::BTreeSet;

use lapse_plugin::{Failure, Whole};
use serde::{Deserialize, Serialize};

/// A decision has at most so many compensations, and each member's refund is one.
pub const MOST_MEMBERS: usize = 200;

#[derive(Deserialize)]
pub struct Group {
    pub group_id: String,
    pub required: Whole,
    pub members: Vec<Member>,
}

#[derive(Deserialize)]
pub struct Member {
    pub user_id: String,
    pub order_id: String,
    pub amount: Whole,
}

#[derive(Deserialize)]
pub struct Config {
    pub refund_url: String,
    #[serde(default)]
    pub group_url: Option<String>,
}

/// The payload of `refund`, and the body that is posted.
#[derive(Serialize)]
pub struct Refund<'a> {
    pub group_id: &'a str,
    pub user_id: &'a str,
    pub order_id: &'a str,
    pub amount: Whole,
}

/// What a schema cannot say: an order is refunded once, and all of them in one decision.
pub fn check(members: &[Member]) -> Result<(), Failure> {
    if members.len() > MOST_MEMBERS {
        let message = format!("{} members are more than the {MOST_MEMBERS} that can be refunded", members.len());
        return Err(Failure::permanent("members_invalid", message));
    }
    let mut seen = BTreeSet::new();
    match members.iter().find(|m| !seen.insert(&m.order_id)) {
        Some(twice) => {
            let message = format!("order {:?} stands in the group twice", twice.order_id);
            Err(Failure::permanent("members_invalid", message))
        }
        None => Ok(()),
    }
}
