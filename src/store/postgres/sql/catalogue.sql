-- name: now
SELECT {now}

-- name: setting
SELECT value FROM settings WHERE name = $1

-- name: put_setting
INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING

-- name: ping
UPDATE settings SET value = {now} WHERE name = 'pinged_at'

-- name: lock
SELECT value FROM settings WHERE name = 'catalogue_version' FOR NO KEY UPDATE

-- name: bump
UPDATE settings SET value = value + 1 WHERE name = 'catalogue_version'

-- name: namespaces
SELECT id, name, created_at FROM namespaces ORDER BY id

-- name: namespace_by_name
SELECT id, name, created_at FROM namespaces WHERE name = $1

-- name: insert_namespace
INSERT INTO namespaces (name, created_at) VALUES ($1, $2) RETURNING id

-- name: any_key
SELECT EXISTS (SELECT 1 FROM api_keys)

-- name: insert_key
INSERT INTO api_keys (id, namespace_id, name, role, hash, created_at, created_by)
VALUES ($1, $2::bigint, $3, $4, $5, $6, $7)

-- name: revoke_key
UPDATE api_keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL

-- name: key_by_id
SELECT id, namespace_id, name, role, created_at, created_by, revoked_at FROM api_keys WHERE id = $1

-- name: key_by_hash
SELECT id, namespace_id, name, role, created_at, created_by, revoked_at FROM api_keys
WHERE hash = $1 AND revoked_at IS NULL

-- name: keys
SELECT id, namespace_id, name, role, created_at, created_by, revoked_at FROM api_keys
WHERE $1::bigint IS NULL OR namespace_id = $1
ORDER BY id

-- name: plugins
SELECT namespace_id, digest, size, manifest, imports, created_at, created_by FROM plugins
ORDER BY namespace_id, created_at, digest

-- name: plugin
SELECT namespace_id, digest, size, manifest, imports, created_at, created_by FROM plugins
WHERE namespace_id = $1::bigint AND digest = $2

-- name: plugin_bytes
SELECT bytes FROM plugins WHERE namespace_id = $1::bigint AND digest = $2

-- name: insert_plugin
INSERT INTO plugins (namespace_id, digest, size, manifest, imports, created_at, created_by, bytes)
VALUES ($1::bigint, $2, $3, $4, $5, $6, $7, $8)

-- name: types
SELECT t.id, t.namespace_id, n.name, t.name, t.active, t.created_at, t.updated_at
FROM types AS t JOIN namespaces AS n ON n.id = t.namespace_id
ORDER BY t.id

-- name: type_by_name
SELECT t.id, t.namespace_id, n.name, t.name, t.active, t.created_at, t.updated_at
FROM types AS t JOIN namespaces AS n ON n.id = t.namespace_id
WHERE t.namespace_id = $1::bigint AND t.name = $2

-- name: type_ids
SELECT id FROM types WHERE namespace_id = $1::bigint ORDER BY id

-- name: all_type_ids
SELECT id FROM types

-- name: insert_type
INSERT INTO types (namespace_id, name, active, created_at, updated_at) VALUES ($1::bigint, $2, 1, $3, $3) RETURNING id

-- name: activate
UPDATE types SET active = $2::bigint, updated_at = $3 WHERE id = $1::bigint

-- name: revisions
SELECT number, digest, config, grants, default_delay, attempts, initial, max, concurrency, rate, created_at, created_by,
    type_id, deleted_at
FROM revisions
ORDER BY type_id, number

-- name: revision
SELECT number, digest, config, grants, default_delay, attempts, initial, max, concurrency, rate, created_at, created_by,
    type_id, deleted_at
FROM revisions
WHERE type_id = $1::bigint AND number = $2::bigint

-- name: last_revision
SELECT coalesce(max(number), 0)::bigint FROM revisions WHERE type_id = $1::bigint

-- name: insert_revision
INSERT INTO revisions (
    type_id, number, digest, config, grants, default_delay, attempts, initial, max, concurrency, rate, created_at,
    created_by
)
VALUES ($1::bigint, $2::bigint, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: beat
INSERT INTO nodes (id, beat_at, fires) VALUES ($1, {now}, $2)
ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at, fires = excluded.fires

-- name: live_nodes
SELECT id, fires FROM nodes WHERE beat_at > {now} - $1 ORDER BY id

-- name: forget_nodes
DELETE FROM nodes WHERE id = $1 OR beat_at < {now} - $2

-- name: pauses
SELECT namespace_id, type_id, reason, since, until, paused_by FROM pauses

-- name: pause
SELECT namespace_id, type_id, reason, since, until, paused_by FROM pauses
WHERE namespace_id = $1::bigint AND type_id = $2::bigint

-- name: put_pause
INSERT INTO pauses (namespace_id, type_id, reason, since, until, paused_by)
VALUES ($1::bigint, $2::bigint, $3, $4, $5, $6)
ON CONFLICT (namespace_id, type_id) DO UPDATE
SET reason = excluded.reason, since = excluded.since, until = excluded.until, paused_by = excluded.paused_by

-- name: delete_pause
DELETE FROM pauses WHERE namespace_id = $1::bigint AND type_id = $2::bigint

-- name: delete_ended_pauses
DELETE FROM pauses WHERE until <= $1

-- name: needed
SELECT
    (
        SELECT count(*) FROM (
            SELECT 1 FROM timers AS w
            WHERE w.type_id = $1::bigint AND w.revision = $2::bigint AND w.state IN (0, 1, 6)
            LIMIT $3::bigint
        ) AS timers
    ),
    (
        SELECT count(*) FROM (
            SELECT 1 FROM compensations AS w
            WHERE w.type_id = $1::bigint AND w.revision = $2::bigint AND w.state IN (0, 1, 3)
            LIMIT $3::bigint
        ) AS compensations
    )

-- name: delete_revision
UPDATE revisions SET deleted_at = $3 WHERE type_id = $1::bigint AND number = $2::bigint

-- name: plugin_revisions
SELECT t.name, r.number, r.deleted_at, r.type_id
FROM revisions AS r JOIN types AS t ON t.id = r.type_id
WHERE t.namespace_id = $1::bigint AND r.digest = $2
ORDER BY t.name, r.number

-- name: delete_plugin
DELETE FROM plugins WHERE namespace_id = $1::bigint AND digest = $2

-- name: active_revisions
SELECT id, active FROM types

-- name: revoked
SELECT id, revoked FROM types WHERE revoked <> '[]'

-- name: revoked_of
SELECT id, revoked FROM types WHERE id = $1::bigint

-- name: put_revoked
UPDATE types SET revoked = $2, updated_at = $3 WHERE id = $1::bigint
