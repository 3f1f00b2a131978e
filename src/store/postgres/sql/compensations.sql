-- name: columns
c.id, c.timer_id, t.namespace_id, c.type_id, t.key, c.kind, c.payload, c.revision, c.state, c.attempt, c.first_attempt,
c.run_at, c.fence, c.last_error, c.result, c.created_at, c.settled_at

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

-- name: look
SELECT {columns}
FROM compensations AS c JOIN timers AS t ON t.id = c.timer_id
WHERE c.id = ANY ($1::uuid[])

-- name: claim
-- A lease that lapsed has used its attempt up.
WITH due AS MATERIALIZED (
    SELECT d.id, d.run_at FROM compensations AS d
    WHERE d.type_id = $1::bigint AND d.kind = $2 AND d.run_at <= coalesce($3::bigint, {begun})
    ORDER BY d.run_at
    LIMIT $4
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE compensations AS c
SET attempt = c.attempt + (c.state = 1)::integer, state = 1, fence = c.fence + 1,
    run_at = least(coalesce($3::bigint, {begun})::numeric + $5::bigint, 253402300799999)::bigint
FROM due JOIN timers AS t ON true
WHERE c.id = due.id AND t.id = c.timer_id
RETURNING {columns}, due.run_at

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
-- Which ones is told by the index alone, of which each span reads a page's length; only those are read themselves.
SELECT {columns}
FROM (
    SELECT h.id
    FROM unnest($1::bigint[]) AS u (type_id)
    CROSS JOIN unnest($2::smallint[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT q.created_at, q.id FROM compensations AS q
        WHERE q.state = s.state AND q.type_id = u.type_id AND (q.created_at, q.id) < ($3, $4)
        ORDER BY q.created_at DESC, q.id DESC
        LIMIT $5
    ) AS h
    ORDER BY h.created_at DESC, h.id DESC
    LIMIT $5
) AS head
JOIN compensations AS c ON c.id = head.id
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
