//! Finding timers: one by id or key, many by filter.

use axum::{Json, extract::State};
use serde::{Deserialize, Deserializer, de::IntoDeserializer as _};
use utoipa::{IntoParams, ToSchema};

use crate::{
    domain::{
        id::{NamespaceId, TimerId, TimerKey, TypeId},
        time::Timestamp,
        timer,
    },
    store::read::{Order, PrefixQuery, TimerQuery},
};

use super::{
    super::{
        Api, Inner,
        auth::Caller,
        cursor::{self, List},
        extract::{Path, Query},
        model::{TimerState, page},
        problem::{Code, Error, Result},
    },
    Timer, TimerAnswer,
};

page!(
    /// Timers, in the order that was asked for.
    TimerPage of Timer
);

/// By the due time.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TimerOrder {
    DueAsc,
    #[default]
    DueDesc,
}

/// One state or more: `state=scheduled,firing`, or the parameter several times.
#[derive(Default)]
pub struct States(Vec<TimerState>);

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let mut states = Vec::new();
        for word in text.split(',') {
            let state = TimerState::deserialize(word.into_deserializer())?;
            // So that no list is longer than there are states.
            if !states.contains(&state) {
                states.push(state);
            }
        }
        Ok(Self(states))
    }
}

/// Which timers.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct TimerFilter {
    /// Of this type.
    #[param(nullable = false)]
    r#type: Option<String>,
    /// In one of these states: the parameter several times, or words with commas between them.
    #[serde(default)]
    #[param(inline, value_type = Option<Vec<TimerState>>, nullable = false)]
    state: States,
    /// With exactly this key: the way to reach one that a path would mangle.
    #[param(nullable = false)]
    key: Option<String>,
    /// With a key that starts so. The list is then by key, and has no other order.
    #[param(nullable = false, min_length = 1, max_length = 256)]
    key_prefix: Option<String>,
    /// Due before this time.
    #[param(value_type = Option<String>, format = DateTime, nullable = false)]
    due_before: Option<Timestamp>,
    /// Due at or after this time.
    #[param(value_type = Option<String>, format = DateTime, nullable = false)]
    due_after: Option<Timestamp>,
    /// `true`: not final, and due; `false`: the others.
    #[param(nullable = false)]
    expired: Option<bool>,
    /// With this label: `name=value`.
    #[param(nullable = false, example = "shop=main")]
    label: Option<String>,
    /// `due_desc`, which is what it is if left out, has the newest due first.
    #[param(inline, nullable = false)]
    order: Option<TimerOrder>,
    /// `false` leaves the payloads out.
    #[param(nullable = false, default = true)]
    payload: Option<bool>,
    /// Where to go on: the `next_cursor` of the page before.
    #[param(nullable = false)]
    cursor: Option<String>,
    /// Items in a page.
    #[param(minimum = 1, maximum = 500, default = 50, nullable = false)]
    limit: Option<u32>,
}

/// Lists timers, newest due first if nothing else is asked for.
///
/// A page may be short, or empty, and still have a `next_cursor`: a filter looks at a bounded number of timers a call.
#[utoipa::path(
    get, path = "/v1/timers", operation_id = "list_timers", tag = "timers", params(TimerFilter),
    responses((status = 200, description = "A page", body = TimerPage))
)]
pub async fn list_timers(
    State(api): State<Api>,
    caller: Caller,
    Query(filter): Query<TimerFilter>,
) -> Result<Json<TimerPage>> {
    let limit = cursor::limit(filter.limit)?;
    let with_payload = filter.payload.unwrap_or(true);
    let label = match filter.label.as_deref().map(|l| l.split_once('=')) {
        None => None,
        Some(Some((name, value))) => Some((name.to_owned(), value.to_owned())),
        Some(None) => return Err(Error::at(Code::Malformed, "?label", "a label is given as name=value")),
    };
    let types = api.type_ids(caller.namespace_id, filter.r#type.as_deref());
    // What no timer can have, none has.
    let impossible = filter.key.as_ref().is_some_and(|key| key.parse::<TimerKey>().is_err())
        || label.as_ref().is_some_and(|(name, value)| name.contains('\0') || value.contains('\0'));
    if types.is_empty() || impossible {
        return Ok(Json(TimerPage { items: Vec::new(), next_cursor: None }));
    }
    let mut query = TimerQuery {
        types,
        states: filter.state.0.into_iter().map(Into::into).collect(),
        key: filter.key,
        due_before: filter.due_before,
        due_after: filter.due_after,
        expired: filter.expired,
        label,
        limit,
        ..TimerQuery::default()
    };
    let (items, next_cursor) = if let Some(prefix) = filter.key_prefix {
        check_prefix(&prefix, &query, filter.order)?;
        let after = decode_key(filter.cursor.as_deref())?;
        let page = api.store.read().timers_by_prefix(PrefixQuery { filter: query, prefix, after }).await?;
        (page.items, page.next.map(|(key, type_id)| encode_key(key.as_str(), type_id)))
    } else {
        let list = match filter.order.unwrap_or_default() {
            TimerOrder::DueAsc => List::TimersAscending,
            TimerOrder::DueDesc => List::Timers,
        };
        let place = cursor::decode_row(list, filter.cursor.as_deref())?.map(|(at, id)| (at, TimerId(id)));
        match list {
            List::TimersAscending => (query.order, query.after) = (Order::DueAscending, place),
            _ => query.before = place,
        }
        let page = api.store.read().timers(query).await?;
        (page.items, page.next.map(|next| cursor::encode_row(list, next)))
    };
    let shown = |row| if with_payload { api.show(row) } else { api.show(row).without_payload() };
    Ok(Json(TimerPage { items: items.into_iter().map(shown).collect(), next_cursor }))
}

fn check_prefix(prefix: &str, query: &TimerQuery, order: Option<TimerOrder>) -> Result<()> {
    if order.is_some() || query.key.is_some() {
        let (name, detail) = match order {
            Some(_) => ("?order", "a list by key_prefix is in order of key; leave order out"),
            None => ("?key", "give key or key_prefix, not both"),
        };
        return Err(Error::at(Code::Malformed, name, detail));
    }
    match prefix.parse::<TimerKey>() {
        Ok(_) => Ok(()),
        Err(error) => Err(Error::at(Code::Malformed, "?key_prefix", format!("it is the start of a key: {error}"))),
    }
}

fn encode_key(key: &str, type_id: TypeId) -> String {
    cursor::encode(List::TimersByKey, &[&type_id.0.to_be_bytes()[..], key.as_bytes()].concat())
}

fn decode_key(cursor: Option<&str>) -> Result<Option<(TimerKey, TypeId)>> {
    let Some(cursor) = cursor else { return Ok(None) };
    let place = cursor::decode(List::TimersByKey, cursor)?;
    let (type_id, key) = place.split_at_checked(8).ok_or_else(cursor::bad)?;
    let type_id = i64::from_be_bytes(type_id.try_into().map_err(|_| cursor::bad())?);
    let key = std::str::from_utf8(key).ok().and_then(|k| k.parse().ok()).ok_or_else(cursor::bad)?;
    Ok(Some((key, TypeId(type_id))))
}

/// Shows a timer.
#[utoipa::path(
    get, path = "/v1/timers/{id}", operation_id = "get_timer", tag = "timers",
    params(("id" = String, Path, format = Uuid, description = "The timer's id")),
    responses((status = 200, description = "The timer", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn get_timer(State(api): State<Api>, caller: Caller, Path(id): Path<uuid::Uuid>) -> Result<TimerAnswer> {
    let timer = api.timer(&caller, TimerId(id)).await?;
    Ok(TimerAnswer::ok(api.show(timer)))
}

/// Shows a timer, by type and key.
#[utoipa::path(
    get, path = "/v1/types/{type}/timers/{key}", operation_id = "get_timer_by_key", tag = "timers",
    params(("type" = String, Path, description = "The type's name"), ("key" = String, Path, description = "The timer's key, percent-encoded")),
    responses((status = 200, description = "The timer", body = Timer, headers(("ETag" = String, description = "The timer's version"))))
)]
pub async fn get_timer_by_key(
    State(api): State<Api>,
    caller: Caller,
    Path((name, key)): Path<(String, String)>,
) -> Result<TimerAnswer> {
    let type_id = api.type_id(&caller, &name)?;
    let key = key.parse().map_err(|_| Error::not_found("timer"))?;
    let timer = api.store.read().timer_by_key(type_id, key).await?.ok_or_else(|| Error::not_found("timer"))?;
    Ok(TimerAnswer::ok(api.show(timer)))
}

impl Inner {
    /// A timer of the caller's namespace; another's is not there.
    pub async fn timer(&self, caller: &Caller, id: TimerId) -> Result<timer::Timer> {
        let timer = self.store.read().timer(id).await?;
        timer.filter(|t| t.namespace_id == caller.namespace_id).ok_or_else(|| Error::not_found("timer"))
    }

    /// A type that a path names.
    pub fn type_id(&self, caller: &Caller, name: &str) -> Result<TypeId> {
        let snapshot = self.catalog.snapshot();
        snapshot.row_named(caller.namespace_id, name).map(|t| t.id).ok_or_else(|| Error::not_found("timer type"))
    }

    /// The types of a namespace, or the one of them that has this name.
    pub fn type_ids(&self, namespace: NamespaceId, name: Option<&str>) -> Vec<TypeId> {
        let snapshot = self.catalog.snapshot();
        let types = snapshot.catalogue.types.iter().filter(|t| t.namespace_id == namespace);
        types.filter(|t| name.is_none_or(|n| t.name.as_str() == n)).map(|t| t.id).collect()
    }
}
