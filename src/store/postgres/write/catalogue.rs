//! The small tables. Every change raises the catalogue's version, in the same transaction; the version's row is locked
//! first, so that nodes make their changes one after another.

use tokio_postgres::{Row, types::ToSql};

use super::Batch;
use crate::{
    domain::{
        id::{ApiKeyId, Digest, Name, NamespaceId, TypeId},
        pause::{Pause, Scope},
        plugin::{PluginRow, Revision, TypeRow},
        time::{DurationMs, Timestamp},
    },
    store::{
        admin::{
            AdminAnswer, AdminOp, ApiKeyRow, MAX_COUNTED, MAX_HOLDERS, NamespaceRow, PutPause, PutSealed, PutType,
            Revoke, SealedKind, SealedRow, scope_key,
        },
        postgres::{
            error::Fault,
            row::{self, json_text},
        },
    },
};

impl Batch<'_> {
    pub(super) async fn admin(&self, now: Timestamp, op: &AdminOp) -> Result<AdminAnswer, Fault> {
        self.conn.rows("catalogue.lock", &[]).await?;
        match op {
            AdminOp::CreateNamespace { name } => self.create_namespace(now, name).await,
            AdminOp::CreateApiKey { .. } => self.create_api_key(now, op).await,
            AdminOp::RevokeApiKey { namespace_id, id } => self.revoke_api_key(now, *namespace_id, *id).await,
            AdminOp::PutPlugin { .. } => self.put_plugin(now, op).await,
            AdminOp::PutType(put) => self.put_type(now, put).await,
            AdminOp::Pause(put) => self.pause(now, put).await,
            AdminOp::Resume(scope) => self.resume(now, *scope).await,
            AdminOp::Revoke(revoke) => self.revoke(now, revoke).await,
            AdminOp::Activate { namespace_id, name, number } => self.activate(now, *namespace_id, name, *number).await,
            AdminOp::PutSealed(put) => self.put_sealed(now, put).await,
            AdminOp::DeleteSealed { namespace_id, kind, name } => self.delete_sealed(*namespace_id, *kind, name).await,
            AdminOp::DeleteRevision { namespace_id, name, number } => {
                self.delete_revision(now, *namespace_id, name, *number).await
            }
            AdminOp::DeletePlugin { namespace_id, digest } => self.delete_plugin(now, *namespace_id, *digest).await,
        }
    }

    async fn create_namespace(&self, now: Timestamp, name: &Name) -> Result<AdminAnswer, Fault> {
        if let Some(row) = self.one("catalogue.namespace_by_name", &[&name.as_str()], row::namespace).await? {
            return Ok(AdminAnswer::Namespace { row, created: false });
        }
        let params: [&(dyn ToSql + Sync); 2] = [&name.as_str(), &now.as_millis()];
        let id = self.sure("catalogue.insert_namespace", &params, |r| row::int(r, 0).map(NamespaceId)).await?;
        self.bump().await?;
        Ok(AdminAnswer::Namespace { row: NamespaceRow { id, name: name.clone(), created_at: now }, created: true })
    }

    async fn create_api_key(&self, now: Timestamp, op: &AdminOp) -> Result<AdminAnswer, Fault> {
        let AdminOp::CreateApiKey { id, namespace_id, name, role, hash, created_by, only_first } = op else {
            unreachable!("asked for with another operation")
        };
        if *only_first && self.sure("catalogue.any_key", &[], |r| row::get(r, 0)).await? {
            return Ok(AdminAnswer::NotFirst);
        }
        let params: [&(dyn ToSql + Sync); 7] =
            [&id.0, &namespace_id.0, name, &json_text(role), &&hash[..], &now.as_millis(), created_by];
        self.conn.change("catalogue.insert_key", &params).await?;
        self.bump().await?;
        Ok(AdminAnswer::ApiKey(ApiKeyRow {
            id: *id,
            namespace_id: *namespace_id,
            name: name.clone(),
            role: *role,
            created_at: now,
            created_by: created_by.clone(),
            revoked_at: None,
        }))
    }

    /// Revoking a revoked key changes nothing.
    async fn revoke_api_key(
        &self,
        now: Timestamp,
        namespace: Option<NamespaceId>,
        id: ApiKeyId,
    ) -> Result<AdminAnswer, Fault> {
        let found = self.one("catalogue.key_by_id", &[&id.0], row::api_key).await?;
        let Some(mut row) = found.filter(|row| namespace.is_none_or(|n| n == row.namespace_id)) else {
            return Ok(AdminAnswer::NotFound);
        };
        if row.revoked_at.is_none() {
            self.conn.change("catalogue.revoke_key", &[&id.0, &now.as_millis()]).await?;
            self.bump().await?;
            row.revoked_at = Some(now);
        }
        Ok(AdminAnswer::ApiKey(row))
    }

    async fn put_plugin(&self, now: Timestamp, op: &AdminOp) -> Result<AdminAnswer, Fault> {
        let AdminOp::PutPlugin { namespace_id, digest, bytes, manifest, imports, created_by } = op else {
            unreachable!("asked for with another operation")
        };
        if let Some(row) = self.plugin(*namespace_id, *digest).await? {
            return Ok(AdminAnswer::Plugin { row, created: false });
        }
        let size = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        let params: [&(dyn ToSql + Sync); 8] = [
            &namespace_id.0,
            &&digest.0[..],
            &size,
            &json_text(manifest),
            &json_text(imports),
            &now.as_millis(),
            created_by,
            &&bytes[..],
        ];
        self.conn.change("catalogue.insert_plugin", &params).await?;
        self.bump().await?;
        let row = PluginRow {
            namespace_id: *namespace_id,
            digest: *digest,
            size: bytes.len() as u64,
            manifest: (**manifest).clone(),
            imports: imports.clone(),
            created_at: now,
            created_by: created_by.clone(),
        };
        Ok(AdminAnswer::Plugin { row, created: true })
    }

    async fn put_type(&self, now: Timestamp, put: &PutType) -> Result<AdminAnswer, Fault> {
        if self.plugin(put.namespace_id, put.digest).await?.is_none() {
            return Ok(AdminAnswer::NotFound);
        }
        let existing = self.type_by_name(put.namespace_id, &put.name).await?;
        if let Some(row) = &existing {
            let active = self.revision(row.id, row.active).await?.ok_or_else(interfered)?;
            if put.is_same_as(&active) {
                return Ok(AdminAnswer::Type { row: row.clone(), revision: active, created: false });
            }
        }
        let id = if let Some(row) = &existing {
            row.id
        } else {
            let params: [&(dyn ToSql + Sync); 3] = [&put.namespace_id.0, &put.name.as_str(), &now.as_millis()];
            self.sure("catalogue.insert_type", &params, |r| row::int(r, 0).map(TypeId)).await?
        };
        let last: i64 = self.sure("catalogue.last_revision", &[&id.0], |r| row::get(r, 0)).await?;
        let number = last + 1;
        let params: [&(dyn ToSql + Sync); 13] = [
            &id.0,
            &number,
            &&put.digest.0[..],
            &put.config,
            &json_text(&put.grants),
            &put.default_delay.map(length),
            &i64::from(put.retry.attempts),
            &length(put.retry.initial),
            &length(put.retry.max),
            &put.concurrency.map(i64::from),
            &put.rate.map(i64::from),
            &now.as_millis(),
            &put.created_by,
        ];
        self.conn.change("catalogue.insert_revision", &params).await?;
        self.activated(now, id, number, existing.is_none(), (put.namespace_id, &put.name)).await
    }

    async fn activate(
        &self,
        now: Timestamp,
        namespace: NamespaceId,
        name: &Name,
        number: i64,
    ) -> Result<AdminAnswer, Fault> {
        let Some(row) = self.type_by_name(namespace, name).await? else { return Ok(AdminAnswer::NotFound) };
        let found = self.revision(row.id, number).await?.filter(|r| r.deleted_at.is_none());
        let Some(revision) = found else { return Ok(AdminAnswer::NotFound) };
        if row.active == number {
            return Ok(AdminAnswer::Type { row, revision, created: false });
        }
        self.activated(now, row.id, number, false, (namespace, name)).await
    }

    async fn delete_revision(
        &self,
        now: Timestamp,
        namespace: NamespaceId,
        name: &Name,
        number: i64,
    ) -> Result<AdminAnswer, Fault> {
        let Some(row) = self.type_by_name(namespace, name).await? else { return Ok(AdminAnswer::NotFound) };
        let Some(revision) = self.revision(row.id, number).await? else { return Ok(AdminAnswer::NotFound) };
        if revision.deleted_at.is_some() {
            return Ok(AdminAnswer::Deleted);
        }
        let active = row.active == number;
        let (timers, compensations) = self.needed(row.id, number, MAX_COUNTED).await?;
        if active || timers + compensations > 0 {
            return Ok(AdminAnswer::RevisionInUse { active, timers, compensations });
        }
        self.conn.change("catalogue.delete_revision", &[&row.id.0, &number, &now.as_millis()]).await?;
        self.bump().await?;
        Ok(AdminAnswer::Deleted)
    }

    /// How many timers and compensations still need a revision, counted up to `most` each.
    async fn needed(&self, type_id: TypeId, number: i64, most: u64) -> Result<(u64, u64), Fault> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let counts = |r: &Row| Ok((row::unsigned(r, 0)?, row::unsigned(r, 1)?));
        self.sure("catalogue.needed", &[&type_id.0, &number, &most], counts).await
    }

    async fn delete_plugin(
        &self,
        now: Timestamp,
        namespace: NamespaceId,
        digest: Digest,
    ) -> Result<AdminAnswer, Fault> {
        if self.plugin(namespace, digest).await?.is_none() {
            return Ok(AdminAnswer::NotFound);
        }
        let revisions = self.conn.rows("catalogue.plugin_revisions", &[&namespace.0, &&digest.0[..]]).await?;
        let mut holders = Vec::new();
        for revision in &revisions {
            let (type_id, holder) = row::holder(revision)?;
            if holders.len() < MAX_HOLDERS
                && (holder.is_fresh(now) || self.needed(type_id, holder.number, 1).await? != (0, 0))
            {
                holders.push(holder);
            }
        }
        if !holders.is_empty() {
            return Ok(AdminAnswer::PluginInUse(holders));
        }
        self.conn.change("catalogue.delete_plugin", &[&namespace.0, &&digest.0[..]]).await?;
        self.bump().await?;
        Ok(AdminAnswer::Deleted)
    }

    async fn activated(
        &self,
        now: Timestamp,
        id: TypeId,
        number: i64,
        created: bool,
        (namespace, name): (NamespaceId, &Name),
    ) -> Result<AdminAnswer, Fault> {
        self.conn.change("catalogue.activate", &[&id.0, &number, &now.as_millis()]).await?;
        self.bump().await?;
        let row = self.type_by_name(namespace, name).await?.ok_or_else(interfered)?;
        let revision = self.revision(id, number).await?.ok_or_else(interfered)?;
        Ok(AdminAnswer::Type { row, revision, created })
    }

    async fn pause(&self, now: Timestamp, put: &PutPause) -> Result<AdminAnswer, Fault> {
        let before = self.pause_of(now, put.scope).await?;
        let Some(pause) = put.over(before.as_ref(), now) else {
            return Ok(AdminAnswer::Paused { pause: before.ok_or_else(interfered)?, changed: false });
        };
        let (namespace_id, type_id) = scope_key(put.scope);
        let until = row::ms(pause.until);
        let params: [&(dyn ToSql + Sync); 6] =
            [&namespace_id, &type_id, &pause.reason, &pause.since.as_millis(), &until, &pause.by];
        self.conn.change("catalogue.put_pause", &params).await?;
        self.conn.change("catalogue.delete_ended_pauses", &[&now.as_millis()]).await?;
        self.bump().await?;
        Ok(AdminAnswer::Paused { pause, changed: true })
    }

    async fn resume(&self, now: Timestamp, scope: Scope) -> Result<AdminAnswer, Fault> {
        let before = self.pause_of(now, scope).await?;
        let (namespace_id, type_id) = scope_key(scope);
        // One that has ended by itself goes unnoticed.
        self.conn.change("catalogue.delete_pause", &[&namespace_id, &type_id]).await?;
        if before.is_some() {
            self.bump().await?;
        }
        Ok(AdminAnswer::Resumed(before))
    }

    /// The pause that holds now.
    async fn pause_of(&self, now: Timestamp, scope: Scope) -> Result<Option<Pause>, Fault> {
        let (namespace_id, type_id) = scope_key(scope);
        let found = self.one("catalogue.pause", &[&namespace_id, &type_id], row::pause).await?;
        Ok(found.filter(|pause| pause.holds(now)))
    }

    async fn revoke(&self, now: Timestamp, revoke: &Revoke) -> Result<AdminAnswer, Fault> {
        let found = self.type_by_name(revoke.namespace_id, &revoke.name).await?;
        let Some(row) = found else { return Ok(AdminAnswer::NotFound) };
        let (_, before) = self.sure("catalogue.revoked_of", &[&row.id.0], row::revoked).await?;
        let after = revoke.over(&before);
        if after != before {
            let params: [&(dyn ToSql + Sync); 3] = [&row.id.0, &json_text(&after), &now.as_millis()];
            self.conn.change("catalogue.put_revoked", &params).await?;
            self.bump().await?;
        }
        Ok(AdminAnswer::Revoked(after))
    }

    async fn put_sealed(&self, now: Timestamp, put: &PutSealed) -> Result<AdminAnswer, Fault> {
        let created = self.sealed(put.namespace_id, put.kind, &put.name).await?.is_none();
        let params: [&(dyn ToSql + Sync); 7] = [
            &put.namespace_id.0,
            &row::code(put.kind.code()),
            &put.name.as_str(),
            &put.open,
            &put.sealed,
            &now.as_millis(),
            &put.updated_by,
        ];
        self.conn.change("sealed.put", &params).await?;
        let row = self.sealed(put.namespace_id, put.kind, &put.name).await?.ok_or_else(interfered)?;
        Ok(AdminAnswer::Sealed { row, created })
    }

    async fn delete_sealed(&self, namespace: NamespaceId, kind: SealedKind, name: &Name) -> Result<AdminAnswer, Fault> {
        let Some(row) = self.sealed(namespace, kind, name).await? else { return Ok(AdminAnswer::NotFound) };
        self.conn.change("sealed.delete", &[&namespace.0, &row::code(kind.code()), &name.as_str()]).await?;
        Ok(AdminAnswer::Sealed { row, created: false })
    }

    async fn sealed(&self, namespace: NamespaceId, kind: SealedKind, name: &Name) -> Result<Option<SealedRow>, Fault> {
        self.one("sealed.get", &[&namespace.0, &row::code(kind.code()), &name.as_str()], row::sealed).await
    }

    async fn plugin(&self, namespace: NamespaceId, digest: Digest) -> Result<Option<PluginRow>, Fault> {
        self.one("catalogue.plugin", &[&namespace.0, &&digest.0[..]], row::plugin).await
    }

    async fn type_by_name(&self, namespace: NamespaceId, name: &Name) -> Result<Option<TypeRow>, Fault> {
        self.one("catalogue.type_by_name", &[&namespace.0, &name.as_str()], row::timer_type).await
    }

    async fn revision(&self, id: TypeId, number: i64) -> Result<Option<Revision>, Fault> {
        let found = self.one("catalogue.revision", &[&id.0, &number], row::revision).await?;
        Ok(found.map(|(_, revision)| revision))
    }

    async fn bump(&self) -> Result<(), Fault> {
        self.conn.change("catalogue.bump", &[]).await.map(drop)
    }

    async fn one<T>(
        &self,
        name: &str,
        params: &[&(dyn ToSql + Sync)],
        read: impl FnOnce(&Row) -> Result<T, Fault>,
    ) -> Result<Option<T>, Fault> {
        self.conn.row(name, params).await?.as_ref().map(read).transpose()
    }

    async fn sure<T>(
        &self,
        name: &str,
        params: &[&(dyn ToSql + Sync)],
        read: impl FnOnce(&Row) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.one(name, params, read).await?.ok_or_else(interfered)
    }
}

fn interfered() -> Fault {
    Fault::Data("the catalogue was changed by something outside of this program".into())
}

fn length(length: DurationMs) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}
