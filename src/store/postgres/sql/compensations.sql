-- name: columns
c.id, c.timer_id, t.namespace_id, c.type_id, t.key, c.kind, c.payload, c.revision, c.state, c.attempt, c.first_attempt,
c.run_at, c.fence, c.last_error, c.result, c.created_at, c.settled_at

-- name: insert
INSERT INTO compensations (
    id, timer_id, seq, type_id, kind, revision, created_at, payload, run_at, state, attempt, first_attempt, fence
)
SELECT u.id, u.timer_id, u.seq, u.type_id, u.kind, u.revision, u.created_at, u.payload, u.created_at, 0, 1, 1, 0
FROM unnest(
    $1::uuid[], $2::uuid[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[], $8::text[]
) AS u (id, timer_id, seq, type_id, kind, revision, created_at, payload)

-- name: by_id
SELECT {columns} FROM compensations AS c JOIN timers AS t ON t.id = c.timer_id WHERE c.id = $1

-- name: by_timer
SELECT {columns} FROM compensations AS c JOIN timers AS t ON t.id = c.timer_id WHERE c.timer_id = $1 LIMIT $2

-- name: timers_of
SELECT c.timer_id FROM compensations AS c WHERE c.id = ANY ($1::uuid[])

-- name: lock
SELECT {columns}
FROM compensations AS c JOIN timers AS t ON t.id = c.timer_id
WHERE c.id = ANY ($1::uuid[])
ORDER BY c.id
FOR NO KEY UPDATE OF c

-- name: due
SELECT {columns}
FROM (
    SELECT * FROM compensations AS d
    WHERE d.type_id = $1::bigint AND d.kind = $2 AND d.run_at <= $3
    ORDER BY d.run_at
    LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
) AS c
JOIN timers AS t ON t.id = c.timer_id
ORDER BY c.run_at, c.id

-- name: update
UPDATE compensations AS c
SET state = u.state, attempt = u.attempt, first_attempt = u.first_attempt, run_at = u.run_at, fence = u.fence,
    last_error = u.last_error, result = u.result, settled_at = u.settled_at
FROM unnest(
    $1::uuid[], $2::smallint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::text[], $10::text[], $11::bigint[]
) AS u (
    id, state_before, fence_before, state, attempt, first_attempt, run_at, fence, last_error, result, settled_at
)
WHERE c.id = u.id AND c.state = u.state_before AND c.fence = u.fence_before
RETURNING c.id

-- name: lanes
WITH RECURSIVE lanes AS (
    (
        SELECT c.type_id, c.kind, c.run_at FROM compensations AS c
        WHERE c.run_at IS NOT NULL
        ORDER BY c.type_id, c.kind, c.run_at
        LIMIT 1
    )
    UNION ALL
    SELECT n.type_id, n.kind, n.run_at
    FROM lanes AS l
    CROSS JOIN LATERAL (
        SELECT c.type_id, c.kind, c.run_at FROM compensations AS c
        WHERE (c.type_id, c.kind) > (l.type_id, l.kind) AND c.run_at IS NOT NULL
        ORDER BY c.type_id, c.kind, c.run_at
        LIMIT 1
    ) AS n
)
SELECT type_id, kind, run_at FROM lanes LIMIT $1

-- name: page
SELECT {columns}
FROM (
    SELECT p.*
    FROM unnest($1::bigint[]) AS u (type_id)
    CROSS JOIN unnest($2::smallint[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT * FROM compensations AS q
        WHERE q.state = s.state AND q.type_id = u.type_id AND (q.created_at, q.id) < ($3, $4)
        ORDER BY q.created_at DESC, q.id DESC
        LIMIT $5
    ) AS p
    ORDER BY p.created_at DESC, p.id DESC
    LIMIT $5
) AS c
JOIN timers AS t ON t.id = c.timer_id
ORDER BY c.created_at DESC, c.id DESC

-- name: page_keys
SELECT p.created_at, p.id, p.kind
FROM unnest($1::bigint[]) AS u (type_id)
CROSS JOIN unnest($2::smallint[]) AS s (state)
CROSS JOIN LATERAL (
    SELECT q.created_at, q.id, q.kind FROM compensations AS q
    WHERE q.state = s.state AND q.type_id = u.type_id AND (q.created_at, q.id) < ($3, $4)
    ORDER BY q.created_at DESC, q.id DESC
    LIMIT $5
) AS p
ORDER BY p.created_at DESC, p.id DESC
LIMIT $5

-- name: by_ids
SELECT {columns} FROM compensations AS c JOIN timers AS t ON t.id = c.timer_id
WHERE c.id = ANY ($1::uuid[])
ORDER BY c.created_at DESC, c.id DESC

-- name: dead
SELECT c.id, c.kind
FROM unnest($1::bigint[]) AS u (type_id)
CROSS JOIN LATERAL (
    SELECT d.id, d.kind, d.created_at FROM compensations AS d
    WHERE d.state = 3 AND d.type_id = u.type_id
    ORDER BY d.created_at, d.id
    LIMIT $2
) AS c
ORDER BY c.created_at, c.id
LIMIT $2

-- name: count
SELECT count(*) FROM (SELECT 1 FROM compensations WHERE state = $1 LIMIT $2) AS counted

-- name: count_by_type
SELECT counted.type_id, count(*)
FROM (
    SELECT u.type_id
    FROM unnest($1::bigint[]) AS u (type_id)
    CROSS JOIN unnest($2::smallint[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT 1 FROM compensations AS c WHERE c.state = s.state AND c.type_id = u.type_id LIMIT $3
    ) AS one
    LIMIT $3
) AS counted
GROUP BY counted.type_id

-- name: oldest_at
SELECT min(c.created_at)
FROM unnest($1::bigint[]) AS u (type_id)
CROSS JOIN LATERAL (
    SELECT d.created_at FROM compensations AS d
    WHERE d.state = $2 AND d.type_id = u.type_id
    ORDER BY d.created_at, d.id
    LIMIT 1
) AS c
