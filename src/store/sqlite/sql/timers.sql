-- name: columns
id, namespace_id, type_id, key, state, due_at, run_at, attempt, lapses, version, revision, pinned, manual, depth,
created_at, settled_at, first_due_at, actor, fingerprint, message_id, head, labels, outcome, payload, n

-- name: insert
INSERT INTO timers (
    id, namespace_id, type_id, key, state, due_at, run_at, attempt, lapses, version, revision, pinned, manual, depth,
    created_at, settled_at, first_due_at, actor, fingerprint, message_id, head, labels, outcome, payload, shard
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)
ON CONFLICT (type_id, key) DO NOTHING

-- name: by_id
SELECT {columns} FROM timers WHERE id = ?1

-- name: by_key
SELECT {columns} FROM timers WHERE type_id = ?1 AND key = ?2

-- name: by_n
SELECT {columns} FROM timers WHERE n = ?1

-- name: head_by_n
SELECT id, state, version, attempt, head FROM timers WHERE n = ?1

-- name: update
UPDATE timers
SET state = ?4, due_at = ?5, run_at = ?6, attempt = ?7, lapses = ?8, version = ?9, manual = ?10, settled_at = ?11,
    outcome = ?12, head = ?13
WHERE n = ?1 AND state = ?2 AND version = ?3

-- name: append
UPDATE timers SET version = ?3, head = ?4 WHERE n = ?1 AND version = ?2

-- name: due
SELECT {columns} FROM timers INDEXED BY timers_by_shard
WHERE shard = ?1 AND (run_at, id) > (?2, ?3) AND run_at < ?4 AND state = 0 AND run_at IS NOT NULL
ORDER BY run_at, id
LIMIT ?5

-- name: overdue
SELECT {columns} FROM timers INDEXED BY timers_by_type
WHERE type_id = ?1 AND run_at < ?2 AND state = 0 AND due_at <= ?3
ORDER BY run_at
LIMIT ?4

-- name: end_leases
-- A scan of the leases alone, which are few.
UPDATE timers INDEXED BY timers_firing SET run_at = ?1 WHERE state = 1 AND run_at > ?1

-- name: lapsed
SELECT {columns} FROM timers INDEXED BY timers_firing
WHERE type_id = ?1 AND run_at <= ?2 AND state = 1
ORDER BY run_at
LIMIT ?3

-- name: next_type
SELECT type_id, run_at FROM timers INDEXED BY timers_by_type
WHERE type_id > ?1 AND run_at IS NOT NULL
ORDER BY type_id, run_at
LIMIT 1

-- name: next_firing_type
SELECT type_id, run_at FROM timers INDEXED BY timers_firing
WHERE type_id > ?1 AND state = 1
ORDER BY type_id, run_at
LIMIT 1

-- name: page
SELECT due_at, id, n FROM timers INDEXED BY timers_list
WHERE type_id = ?1 AND state = ?2 AND (due_at, id) < (?3, ?4) AND due_at >= ?5
ORDER BY due_at DESC, id DESC
LIMIT ?6

-- name: labels_by_n
SELECT labels FROM timers WHERE n = ?1

-- name: page_ascending
SELECT due_at, id, n FROM timers INDEXED BY timers_list
WHERE type_id = ?1 AND state = ?2 AND (due_at, id) > (?3, ?4) AND due_at < ?5
ORDER BY due_at, id
LIMIT ?6

-- name: keys
SELECT key, n, state, due_at, labels FROM timers INDEXED BY sqlite_autoindex_timers_2
WHERE type_id = ?1 AND key >= ?2 AND (?3 IS NULL OR key < ?3)
ORDER BY key
LIMIT ?4

-- name: count_due
SELECT count(*) FROM (
    SELECT 1 FROM timers INDEXED BY timers_list WHERE type_id = ?1 AND state = ?2 AND due_at < ?3 LIMIT ?4
)

-- name: upcoming
SELECT run_at FROM timers INDEXED BY timers_by_type
WHERE type_id = ?1 AND run_at >= ?2 AND run_at < ?3
ORDER BY run_at
LIMIT ?4

-- name: payloads_under
SELECT CASE WHEN pinned THEN NULL ELSE payload END FROM timers INDEXED BY timers_by_revision
WHERE type_id = ?1 AND revision = ?2 AND state IN (0, 1, 6)
LIMIT ?3
