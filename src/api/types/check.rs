//! What a type must fulfil before it is stored.

use serde_json::Value;

use crate::{
    domain::{
        backoff,
        id::{Digest, Name},
        plugin::{Capability, Export, Grant, Manifest},
        timer::MAX_PAYLOAD_BYTES,
    },
    schema::{Fault, Schema},
    store::admin::PutType,
};

use super::{
    super::{
        Inner,
        auth::Caller,
        extract::duration,
        problem::{Code, Error, Result},
        timers::{has_nul, payload_faults},
    },
    PutTypeRequest, RetryPolicy,
};

/// The most rights of one type.
const MAX_GRANTS: usize = 64;
const MAX_CONCURRENCY: u32 = 10_000;
const MAX_RATE: u32 = 1_000_000;

pub(super) fn no_such_plugin() -> Error {
    Error::at(Code::PluginInvalid, "/digest", "no such plugin is uploaded in this namespace")
}

impl Inner {
    /// A request that passes every check but the store's own.
    pub(super) fn checked_type(&self, caller: &Caller, name: Name, request: PutTypeRequest) -> Result<PutType> {
        let digest: Digest = request
            .digest
            .parse()
            .map_err(|e: crate::domain::id::DigestError| Error::at(Code::PayloadInvalid, "/digest", e.to_string()))?;
        let snapshot = self.catalog.snapshot();
        let plugin = snapshot.plugin(caller.namespace_id, digest).ok_or_else(no_such_plugin)?;
        let manifest = &plugin.manifest;
        let config = request.config.map_or_else(|| "{}".to_owned(), |c| Box::<str>::from(c).into());
        check_config(manifest, &config)?;
        let grants = read_grants(&request.grants)?;
        check_grants(manifest, &grants)?;
        let bounded = |value: Option<u32>, most: u32, pointer: &str| match value {
            Some(n) if !(1..=most).contains(&n) => {
                Err(Error::at(Code::PayloadInvalid, pointer, format!("1 to {most}, not {n}")))
            }
            value => Ok(value),
        };
        Ok(PutType {
            namespace_id: caller.namespace_id,
            name,
            digest,
            config,
            grants,
            default_delay: request.default_delay.map(|d| duration(&d, "/default_delay")).transpose()?,
            retry: match request.retry {
                Some(policy) => read_retry(&policy)?,
                None => manifest.retry.unwrap_or(backoff::RetryPolicy::EXPIRY),
            },
            concurrency: bounded(request.concurrency, MAX_CONCURRENCY, "/concurrency")?,
            rate: bounded(request.rate, MAX_RATE, "/rate")?,
            created_by: caller.actor.clone(),
        })
    }
}

fn check_config(manifest: &Manifest, config: &str) -> Result<()> {
    if config.len() > MAX_PAYLOAD_BYTES {
        let detail = format!("the config has {} bytes; the limit is {MAX_PAYLOAD_BYTES} bytes", config.len());
        return Err(Error::at(Code::TooLarge, "/config", detail));
    }
    let value: Value = serde_json::from_str(config)
        .map_err(|e| Error::at(Code::PayloadInvalid, "/config", format!("the config cannot be read: {e}")))?;
    if has_nul(&value) {
        return Err(Error::at(Code::PayloadInvalid, "/config", "U+0000 cannot be stored"));
    }
    let Some(schema) = &manifest.config_schema else { return Ok(()) };
    let schema = Schema::compile(schema).map_err(|why| {
        Error::at(Code::PluginInvalid, "/digest", format!("the plugin's config_schema is not one: {why}"))
    })?;
    let what = "the config does not fit the plugin's config_schema";
    schema.check(&value, "/config").map_err(|faults| payload_faults(what, faults))
}

pub(super) fn read_grants(texts: &[String]) -> Result<Vec<Grant>> {
    if texts.len() > MAX_GRANTS {
        let detail = format!("at most {MAX_GRANTS} grants; this has {}", texts.len());
        return Err(Error::at(Code::PayloadInvalid, "/grants", detail));
    }
    let mut grants = Vec::with_capacity(texts.len());
    for (i, text) in texts.iter().enumerate() {
        let at = |detail: String| Error::at(Code::PayloadInvalid, format!("/grants/{i}"), detail);
        let grant: Grant = text.parse().map_err(|e: crate::domain::plugin::GrantError| at(e.to_string()))?;
        grants.push(grant);
    }
    grants.sort();
    grants.dedup();
    Ok(grants)
}

/// A right is held by what the plugin asks *and* an operator grants: nothing is given that it does not ask for, and
/// nothing that it requires is left out.
fn check_grants(manifest: &Manifest, grants: &[Grant]) -> Result<()> {
    for (i, grant) in grants.iter().enumerate() {
        let wanted = manifest.exports.get(&grant.export);
        let capability = grant.capability();
        if !wanted.is_some_and(|w| w.required.contains(&capability) || w.optional.contains(&capability)) {
            let (capability, export) = (word(capability), grant.export.as_str());
            let detail = format!("{grant}: the plugin does not ask for {capability} in {export}");
            return Err(Error::at(Code::PayloadInvalid, format!("/grants/{i}"), detail));
        }
    }
    let is_missing = |export: Export, c: Capability| !grants.iter().any(|g| g.export == export && g.capability() == c);
    let required = manifest.exports.iter().flat_map(|(export, wanted)| wanted.required.iter().map(|c| (*export, *c)));
    let missing: Vec<Fault> = required
        .filter(|(export, c)| is_missing(*export, *c))
        .map(|(export, c)| Fault {
            pointer: "/grants".to_owned(),
            code: "grant_missing".to_owned(),
            detail: format!("the plugin needs {} in {}", word(c), export.as_str()),
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let all: Vec<_> = missing.iter().map(|f| f.detail.as_str()).collect();
    Err(Error::new(Code::GrantMissing, all.join("; ")).with_errors(missing))
}

fn word(capability: Capability) -> &'static str {
    match capability {
        Capability::Http => "http",
        Capability::Sql => "sql",
        Capability::Secret => "secret",
    }
}

fn read_retry(policy: &RetryPolicy) -> Result<backoff::RetryPolicy> {
    let most = backoff::RetryPolicy::MAX_ATTEMPTS;
    if !(1..=most).contains(&policy.attempts) {
        let detail = format!("1 to {most} attempts, not {}", policy.attempts);
        return Err(Error::at(Code::PayloadInvalid, "/retry/attempts", detail));
    }
    let initial = duration(&policy.initial, "/retry/initial")?;
    let max = duration(&policy.max, "/retry/max")?;
    if initial > max {
        return Err(Error::at(Code::TimeInvalid, "/retry/initial", "initial is longer than max"));
    }
    Ok(backoff::RetryPolicy { attempts: policy.attempts, initial, max })
}
