//! The small tables. Every change raises the catalogue's version, in the same transaction.

use rusqlite::{OptionalExtension as _, Params, Row, params};

use super::{Writer, interfered, timers::json_text};
use crate::{
    domain::{
        id::{ApiKeyId, Digest, Name, NamespaceId, TypeId},
        pause::{Pause, Scope},
        plugin::{PluginRow, Revision, TypeRow},
        time::Timestamp,
    },
    store::{
        Result,
        admin::{
            AdminAnswer, AdminOp, ApiKeyRow, MAX_COUNTED, MAX_HOLDERS, NamespaceRow, PutPause, PutSealed, PutType,
            Revoke, SealedKind, SealedRow, scope_key,
        },
        sqlite::{row, sql},
    },
};

impl Writer<'_> {
    pub(super) fn admin(&mut self, op: &AdminOp) -> Result<AdminAnswer> {
        match op {
            AdminOp::CreateNamespace { name } => self.create_namespace(name),
            AdminOp::CreateApiKey { .. } => self.create_api_key(op),
            AdminOp::RevokeApiKey { namespace_id, id } => self.revoke_api_key(*namespace_id, *id),
            AdminOp::PutPlugin { .. } => self.put_plugin(op),
            AdminOp::PutType(put) => self.put_type(put),
            AdminOp::Pause(put) => self.pause(put),
            AdminOp::Resume(scope) => self.resume(*scope),
            AdminOp::Revoke(revoke) => self.revoke(revoke),
            AdminOp::Activate { namespace_id, name, number } => self.activate(*namespace_id, name, *number),
            AdminOp::PutSealed(put) => self.put_sealed(put),
            AdminOp::DeleteSealed { namespace_id, kind, name } => self.delete_sealed(*namespace_id, *kind, name),
            AdminOp::DeleteRevision { namespace_id, name, number } => {
                self.delete_revision(*namespace_id, name, *number)
            }
            AdminOp::DeletePlugin { namespace_id, digest } => self.delete_plugin(*namespace_id, *digest),
        }
    }

    fn create_namespace(&mut self, name: &Name) -> Result<AdminAnswer> {
        if let Some(row) = self.one("catalogue.namespace_by_name", [name.as_str()], row::namespace)? {
            return Ok(AdminAnswer::Namespace { row, created: false });
        }
        let created_at = self.now;
        let params = params![name.as_str(), created_at.as_millis()];
        let id = self.one("catalogue.insert_namespace", params, |row| row.get(0).map(NamespaceId))?;
        let id = id.ok_or_else(|| interfered("the catalogue"))?;
        self.bump()?;
        Ok(AdminAnswer::Namespace { row: NamespaceRow { id, name: name.clone(), created_at }, created: true })
    }

    fn create_api_key(&mut self, op: &AdminOp) -> Result<AdminAnswer> {
        let AdminOp::CreateApiKey { id, namespace_id, name, role, hash, created_by, only_first } = op else {
            unreachable!("asked for with another operation")
        };
        if *only_first && self.one("catalogue.any_key", [], |row| row.get(0))?.unwrap_or(false) {
            return Ok(AdminAnswer::NotFirst);
        }
        let role_text = json_text(role);
        self.change(
            "catalogue.insert_key",
            params![id.0.as_bytes(), namespace_id.0, name, role_text, hash, self.now.as_millis(), created_by,],
        )?;
        self.bump()?;
        Ok(AdminAnswer::ApiKey(ApiKeyRow {
            id: *id,
            namespace_id: *namespace_id,
            name: name.clone(),
            role: *role,
            created_at: self.now,
            created_by: created_by.clone(),
            revoked_at: None,
        }))
    }

    /// Revoking a revoked key changes nothing.
    fn revoke_api_key(&mut self, namespace: Option<NamespaceId>, id: ApiKeyId) -> Result<AdminAnswer> {
        let found = self.one("catalogue.key_by_id", [id.0.as_bytes()], row::api_key)?;
        let Some(mut row) = found.filter(|row| namespace.is_none_or(|n| n == row.namespace_id)) else {
            return Ok(AdminAnswer::NotFound);
        };
        if row.revoked_at.is_none() {
            self.change("catalogue.revoke_key", params![id.0.as_bytes(), self.now.as_millis()])?;
            self.bump()?;
            row.revoked_at = Some(self.now);
        }
        Ok(AdminAnswer::ApiKey(row))
    }

    fn put_plugin(&mut self, op: &AdminOp) -> Result<AdminAnswer> {
        let AdminOp::PutPlugin { namespace_id, digest, bytes, manifest, imports, created_by } = op else {
            unreachable!("asked for with another operation")
        };
        if let Some(row) = self.plugin(*namespace_id, *digest)? {
            return Ok(AdminAnswer::Plugin { row, created: false });
        }
        self.change(
            "catalogue.insert_plugin",
            params![
                namespace_id.0,
                digest.0,
                bytes.len(),
                json_text(manifest),
                json_text(imports),
                self.now.as_millis(),
                created_by,
                &bytes[..],
            ],
        )?;
        self.bump()?;
        let row = PluginRow {
            namespace_id: *namespace_id,
            digest: *digest,
            size: bytes.len() as u64,
            manifest: (**manifest).clone(),
            imports: imports.clone(),
            created_at: self.now,
            created_by: created_by.clone(),
        };
        Ok(AdminAnswer::Plugin { row, created: true })
    }

    fn put_type(&mut self, put: &PutType) -> Result<AdminAnswer> {
        if self.plugin(put.namespace_id, put.digest)?.is_none() {
            return Ok(AdminAnswer::NotFound);
        }
        let existing = self.type_by_name(put.namespace_id, &put.name)?;
        if let Some(row) = &existing {
            let active = self.revision(row.id, row.active)?.ok_or_else(|| interfered("the catalogue"))?;
            if put.is_same_as(&active) {
                return Ok(AdminAnswer::Type { row: row.clone(), revision: active, created: false });
            }
        }
        let now = self.now.as_millis();
        let id = if let Some(row) = &existing {
            row.id
        } else {
            let params = params![put.namespace_id.0, put.name.as_str(), now];
            let id = self.one("catalogue.insert_type", params, |row| row.get(0).map(TypeId))?;
            id.ok_or_else(|| interfered("the catalogue"))?
        };
        let last: i64 = self.one("catalogue.last_revision", [id.0], |row| row.get(0))?.unwrap_or(0);
        let number = last + 1;
        self.change(
            "catalogue.insert_revision",
            params![
                id.0,
                number,
                put.digest.0,
                put.config,
                json_text(&put.grants),
                put.default_delay.map(crate::domain::time::DurationMs::as_millis),
                put.retry.attempts,
                put.retry.initial.as_millis(),
                put.retry.max.as_millis(),
                put.concurrency,
                put.rate,
                now,
                put.created_by,
            ],
        )?;
        self.activated(put.namespace_id, &put.name, id, number, existing.is_none())
    }

    fn activate(&mut self, namespace: NamespaceId, name: &Name, number: i64) -> Result<AdminAnswer> {
        let Some(row) = self.type_by_name(namespace, name)? else { return Ok(AdminAnswer::NotFound) };
        let found = self.revision(row.id, number)?.filter(|r| r.deleted_at.is_none());
        let Some(revision) = found else { return Ok(AdminAnswer::NotFound) };
        if row.active == number {
            return Ok(AdminAnswer::Type { row, revision, created: false });
        }
        self.activated(namespace, name, row.id, number, false)
    }

    fn delete_revision(&self, namespace: NamespaceId, name: &Name, number: i64) -> Result<AdminAnswer> {
        let Some(row) = self.type_by_name(namespace, name)? else { return Ok(AdminAnswer::NotFound) };
        let Some(revision) = self.revision(row.id, number)? else { return Ok(AdminAnswer::NotFound) };
        if revision.deleted_at.is_some() {
            return Ok(AdminAnswer::Deleted);
        }
        let active = row.active == number;
        let (timers, compensations) = self.needed(row.id, number, MAX_COUNTED)?;
        if active || timers + compensations > 0 {
            return Ok(AdminAnswer::RevisionInUse { active, timers, compensations });
        }
        self.change("catalogue.delete_revision", params![row.id.0, number, self.now.as_millis()])?;
        self.bump()?;
        Ok(AdminAnswer::Deleted)
    }

    /// How many timers and compensations still need a revision, counted up to `most` each.
    fn needed(&self, type_id: TypeId, number: i64, most: u64) -> Result<(u64, u64)> {
        let counts = |r: &Row<'_>| Ok((r.get(0)?, r.get(1)?));
        Ok(self.one("catalogue.needed", params![type_id.0, number, most], counts)?.unwrap_or_default())
    }

    fn delete_plugin(&self, namespace: NamespaceId, digest: Digest) -> Result<AdminAnswer> {
        if self.plugin(namespace, digest)?.is_none() {
            return Ok(AdminAnswer::NotFound);
        }
        let mut statement = self.conn.prepare_cached(sql::text("catalogue.plugin_revisions"))?;
        let revisions = statement.query_map(params![namespace.0, digest.0], row::holder)?;
        let mut holders = Vec::new();
        for revision in revisions {
            let (type_id, holder) = revision?;
            if holders.len() < MAX_HOLDERS
                && (holder.is_fresh(self.now) || self.needed(type_id, holder.number, 1)? != (0, 0))
            {
                holders.push(holder);
            }
        }
        if !holders.is_empty() {
            return Ok(AdminAnswer::PluginInUse(holders));
        }
        self.change("catalogue.delete_plugin", params![namespace.0, digest.0])?;
        self.bump()?;
        Ok(AdminAnswer::Deleted)
    }

    fn activated(
        &mut self,
        namespace: NamespaceId,
        name: &Name,
        id: TypeId,
        number: i64,
        created: bool,
    ) -> Result<AdminAnswer> {
        self.change("catalogue.activate", params![id.0, number, self.now.as_millis()])?;
        self.bump()?;
        let row = self.type_by_name(namespace, name)?.ok_or_else(|| interfered("the catalogue"))?;
        let revision = self.revision(id, number)?.ok_or_else(|| interfered("the catalogue"))?;
        Ok(AdminAnswer::Type { row, revision, created })
    }

    fn pause(&self, put: &PutPause) -> Result<AdminAnswer> {
        let before = self.pause_of(put.scope)?;
        let Some(pause) = put.over(before.as_ref(), self.now) else {
            return Ok(AdminAnswer::Paused {
                pause: before.ok_or_else(|| interfered("the catalogue"))?,
                changed: false,
            });
        };
        let (namespace_id, type_id) = scope_key(put.scope);
        let (since, until) = (pause.since.as_millis(), pause.until.map(Timestamp::as_millis));
        self.change("catalogue.put_pause", params![namespace_id, type_id, pause.reason, since, until, pause.by])?;
        self.change("catalogue.delete_ended_pauses", [self.now.as_millis()])?;
        self.bump()?;
        Ok(AdminAnswer::Paused { pause, changed: true })
    }

    fn resume(&self, scope: Scope) -> Result<AdminAnswer> {
        let before = self.pause_of(scope)?;
        let (namespace_id, type_id) = scope_key(scope);
        // One that has ended by itself goes unnoticed.
        self.change("catalogue.delete_pause", params![namespace_id, type_id])?;
        if before.is_some() {
            self.bump()?;
        }
        Ok(AdminAnswer::Resumed(before))
    }

    /// The pause that holds now.
    fn pause_of(&self, scope: Scope) -> Result<Option<Pause>> {
        let (namespace_id, type_id) = scope_key(scope);
        let found = self.one("catalogue.pause", params![namespace_id, type_id], row::pause)?;
        Ok(found.filter(|pause| pause.holds(self.now)))
    }

    fn revoke(&self, revoke: &Revoke) -> Result<AdminAnswer> {
        let Some(row) = self.type_by_name(revoke.namespace_id, &revoke.name)? else { return Ok(AdminAnswer::NotFound) };
        let before = self.one("catalogue.revoked_of", [row.id.0], row::revoked)?;
        let (_, before) = before.ok_or_else(|| interfered("the catalogue"))?;
        let after = revoke.over(&before);
        if after != before {
            self.change("catalogue.put_revoked", params![row.id.0, json_text(&after), self.now.as_millis()])?;
            self.bump()?;
        }
        Ok(AdminAnswer::Revoked(after))
    }

    fn put_sealed(&mut self, put: &PutSealed) -> Result<AdminAnswer> {
        let created = self.sealed(put.namespace_id, put.kind, &put.name)?.is_none();
        self.change(
            "sealed.put",
            params![
                put.namespace_id.0,
                put.kind.code(),
                put.name.as_str(),
                put.open,
                put.sealed,
                self.now.as_millis(),
                put.updated_by,
            ],
        )?;
        let row = self.sealed(put.namespace_id, put.kind, &put.name)?.ok_or_else(|| interfered("a sealed row"))?;
        Ok(AdminAnswer::Sealed { row, created })
    }

    fn delete_sealed(&mut self, namespace: NamespaceId, kind: SealedKind, name: &Name) -> Result<AdminAnswer> {
        let Some(row) = self.sealed(namespace, kind, name)? else { return Ok(AdminAnswer::NotFound) };
        self.change("sealed.delete", params![namespace.0, kind.code(), name.as_str()])?;
        Ok(AdminAnswer::Sealed { row, created: false })
    }

    fn sealed(&self, namespace: NamespaceId, kind: SealedKind, name: &Name) -> Result<Option<SealedRow>> {
        self.one("sealed.get", params![namespace.0, kind.code(), name.as_str()], row::sealed)
    }

    fn plugin(&self, namespace: NamespaceId, digest: Digest) -> Result<Option<PluginRow>> {
        self.one("catalogue.plugin", params![namespace.0, digest.0], row::plugin)
    }

    fn type_by_name(&self, namespace: NamespaceId, name: &Name) -> Result<Option<TypeRow>> {
        self.one("catalogue.type_by_name", params![namespace.0, name.as_str()], row::timer_type)
    }

    fn revision(&self, id: TypeId, number: i64) -> Result<Option<Revision>> {
        Ok(self.one("catalogue.revision", params![id.0, number], row::revision)?.map(|(_, revision)| revision))
    }

    fn bump(&self) -> Result<()> {
        self.change("catalogue.bump", [])
    }

    fn one<T>(
        &self,
        name: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Option<T>> {
        Ok(self.conn.prepare_cached(sql::text(name))?.query_row(params, read).optional()?)
    }

    fn change(&self, name: &str, params: impl Params) -> Result<()> {
        Ok(self.conn.prepare_cached(sql::text(name))?.execute(params).map(drop)?)
    }
}
