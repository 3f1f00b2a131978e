-- name: columns
c.id, t.id, t.namespace_id, c.type_id, t.key, c.kind, c.payload, c.revision, c.state, c.attempt, c.first_attempt, c.run_at,
c.fence, c.last_error, c.result, c.created_at, c.settled_at, c.n, c.timer

-- name: insert
INSERT INTO compensations (
    id, timer, seq, type_id, kind, revision, state, attempt, first_attempt, run_at, fence, created_at, payload
)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 1, 1, ?7, 0, ?7, ?8)

-- name: by_id
SELECT {columns} FROM compensations AS c JOIN timers AS t ON t.n = c.timer WHERE c.id = ?1

-- name: by_n
SELECT {columns} FROM compensations AS c JOIN timers AS t ON t.n = c.timer WHERE c.n = ?1

-- name: by_timer
SELECT {columns} FROM compensations AS c JOIN timers AS t ON t.n = c.timer
WHERE c.timer = (SELECT n FROM timers WHERE id = ?1)
LIMIT ?2

-- name: due
SELECT {columns}
FROM compensations AS c INDEXED BY compensations_lane CROSS JOIN timers AS t ON t.n = c.timer
WHERE c.type_id = ?1 AND c.kind = ?2 AND c.run_at <= ?3
ORDER BY c.run_at
LIMIT ?4

-- name: claim
UPDATE compensations SET state = 1, fence = fence + 1, attempt = ?4, run_at = ?5
WHERE n = ?1 AND fence = ?2 AND state = ?3

-- name: end_leases
UPDATE compensations INDEXED BY compensations_list SET run_at = ?1 WHERE state = 1 AND run_at > ?1

-- name: finish
UPDATE compensations
SET state = ?3, attempt = ?4, run_at = ?5, last_error = ?6, result = ?7, settled_at = ?8
WHERE n = ?1 AND fence = ?2 AND state = 1

-- name: redrive
UPDATE compensations SET state = 0, attempt = ?2, first_attempt = ?2, run_at = ?3, settled_at = NULL, revision = ?4
WHERE n = ?1 AND state = 3

-- name: next_lane
SELECT type_id, kind, run_at FROM compensations INDEXED BY compensations_lane
WHERE (type_id, kind) > (?1, ?2) AND run_at IS NOT NULL
ORDER BY type_id, kind, run_at
LIMIT 1

-- name: page
SELECT created_at, id, n FROM compensations INDEXED BY compensations_list
WHERE state = ?1 AND type_id = ?2 AND (created_at, id) < (?3, ?4)
ORDER BY created_at DESC, id DESC
LIMIT ?5

-- name: oldest
SELECT n, kind FROM compensations INDEXED BY compensations_list
WHERE state = ?1 AND type_id = ?2
ORDER BY created_at, id
LIMIT ?3

-- name: count
SELECT count(*) FROM (SELECT 1 FROM compensations INDEXED BY compensations_list WHERE state = ?1 LIMIT ?2)

-- name: count_of_type
SELECT count(*) FROM (
    SELECT 1 FROM compensations INDEXED BY compensations_list WHERE state = ?1 AND type_id = ?2 LIMIT ?3
)

-- name: oldest_at
SELECT created_at FROM compensations INDEXED BY compensations_list
WHERE state = ?1 AND type_id = ?2
ORDER BY created_at, id
LIMIT 1
