-- name: columns
t.id, t.namespace_id, t.type_id, t.key, t.state, t.due_at, t.run_at, t.attempt, t.lapses, t.version, t.revision, t.pinned,
t.manual, t.depth, t.created_at, t.settled_at, t.first_due_at, t.actor, t.fingerprint, t.message_id, t.head,
t.labels::text, t.outcome, t.payload

-- name: new_rows
INSERT INTO timers (
    id, namespace_id, type_id, key, shard, due_at, run_at, revision, pinned, depth, created_at, first_due_at, actor,
    fingerprint, message_id, head, labels, payload, state, version, settled_at, attempt, lapses, manual
)
SELECT u.id, u.namespace_id, u.type_id, u.key, u.shard, u.due_at, u.run_at, u.revision, u.pinned, u.depth, u.created_at,
    u.due_at, u.actor, u.fingerprint, u.message_id, u.head, u.labels::jsonb, u.payload, u.state, u.version, u.settled_at,
    1, 0, false
FROM unnest(
    $1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::smallint[], $6::bigint[], $7::bigint[], $8::bigint[],
    $9::boolean[], $10::bigint[], $11::bigint[], $12::text[], $13::bytea[], $14::text[], $15::bytea[], $16::text[],
    $17::text[], $18::smallint[], $19::bigint[], $20::bigint[]
) AS u (
    id, namespace_id, type_id, key, shard, due_at, run_at, revision, pinned, depth, created_at, actor, fingerprint,
    message_id, head, labels, payload, state, version, settled_at
)
ON CONFLICT ON CONSTRAINT timers_key DO NOTHING
RETURNING id

-- name: insert
{new_rows}

-- name: by_id
SELECT {columns} FROM timers AS t WHERE t.id = $1

-- name: by_key
SELECT {columns} FROM timers AS t WHERE t.type_id = $1::bigint AND t.key = $2

-- name: by_keys
SELECT {columns}
FROM unnest($1::bigint[], $2::text[]) AS u (type_id, key) JOIN timers AS t ON t.type_id = u.type_id AND t.key = u.key

-- name: ids_by_keys
SELECT t.id
FROM unnest($1::bigint[], $2::text[]) AS u (type_id, key) JOIN timers AS t ON t.type_id = u.type_id AND t.key = u.key

-- name: lock
SELECT {columns} FROM timers AS t WHERE t.id = ANY ($1::uuid[]) ORDER BY t.id FOR NO KEY UPDATE

-- name: look
SELECT {columns} FROM timers AS t WHERE t.id = ANY ($1::uuid[])

-- name: of_compensations
SELECT {columns} FROM timers AS t
WHERE t.id = ANY (ARRAY(SELECT c.timer_id FROM compensations AS c WHERE c.id = ANY ($1::uuid[])))

-- name: free
SELECT t.id FROM timers AS t WHERE t.id = ANY ($1::uuid[]) FOR NO KEY UPDATE SKIP LOCKED

-- name: write
-- All of a batch. Timers are changed before compensations, and those before keys are taken, since the last line asks for
-- them in this order; unless each row was found as it was read, it divides by zero, and nothing has happened.
WITH new AS (
    {new_rows}
), changed AS (
    UPDATE timers AS t
    SET state = u.state, due_at = u.due_at, run_at = u.run_at, attempt = u.attempt, lapses = u.lapses,
        version = u.version, manual = u.manual, settled_at = u.settled_at, outcome = u.outcome, head = u.head
    FROM unnest(
        $21::uuid[], $22::smallint[], $23::bigint[], $24::smallint[], $25::bigint[], $26::bigint[], $27::bigint[],
        $28::bigint[], $29::bigint[], $30::boolean[], $31::bigint[], $32::text[], $33::bytea[]
    ) AS u (
        id, state_before, version_before, state, due_at, run_at, attempt, lapses, version, manual, settled_at, outcome,
        head
    )
    WHERE t.id = u.id AND t.state = u.state_before AND t.version = u.version_before
    RETURNING 1
), noted AS (
    INSERT INTO events (timer_id, seq, mac, body)
    SELECT * FROM unnest($34::uuid[], $35::bigint[], $36::bytea[], $37::text[])
), created AS (
    INSERT INTO compensations (
        id, timer_id, seq, type_id, kind, revision, created_at, payload, run_at, state, attempt, first_attempt, fence
    )
    SELECT u.id, u.timer_id, u.seq, u.type_id, u.kind, u.revision, u.created_at, u.payload, u.created_at, 0, 1, 1, 0
    FROM unnest(
        $38::uuid[], $39::uuid[], $40::bigint[], $41::bigint[], $42::text[], $43::bigint[], $44::bigint[], $45::text[]
    ) AS u (id, timer_id, seq, type_id, kind, revision, created_at, payload)
), run AS (
    UPDATE compensations AS c
    SET state = u.state, attempt = u.attempt, first_attempt = u.first_attempt, run_at = u.run_at, fence = u.fence,
        last_error = u.last_error, result = u.result, settled_at = u.settled_at, revision = u.revision
    FROM unnest(
        $46::uuid[], $47::smallint[], $48::bigint[], $49::smallint[], $50::bigint[], $51::bigint[], $52::bigint[],
        $53::bigint[], $54::text[], $55::text[], $56::bigint[], $57::bigint[]
    ) AS u (
        id, state_before, fence_before, state, attempt, first_attempt, run_at, fence, last_error, result, settled_at,
        revision
    )
    WHERE c.id = u.id AND c.state = u.state_before AND c.fence = u.fence_before
    RETURNING 1
)
SELECT 1 / CASE
    WHEN (SELECT count(*) FROM changed) = cardinality($21::uuid[])
        AND (SELECT count(*) FROM run) = cardinality($46::uuid[])
        AND (SELECT count(*) FROM new) = cardinality($1::uuid[])
    THEN 1 ELSE 0 END

-- name: due
SELECT {columns} FROM timers AS t
WHERE t.shard = $1 AND t.run_at >= $2 AND t.run_at < $3 AND (t.run_at, t.id) > ($4, $5) AND t.state = 0
ORDER BY t.run_at, t.id
LIMIT $6

-- name: claim_overdue
SELECT {columns}
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (type_id, low, limit_)
CROSS JOIN LATERAL (
    SELECT * FROM timers AS o
    WHERE o.type_id = u.type_id AND o.run_at >= u.low AND o.run_at < $4 AND o.state = 0 AND o.id <> ALL ($5::uuid[])
    ORDER BY o.run_at
    LIMIT u.limit_
    FOR NO KEY UPDATE SKIP LOCKED
) AS t

-- name: claim_lapsed
SELECT {columns}
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS u (type_id, low, limit_)
CROSS JOIN LATERAL (
    SELECT * FROM timers AS o
    WHERE o.type_id = u.type_id AND o.run_at >= u.low AND o.run_at < $4 AND o.state = 1 AND o.id <> ALL ($5::uuid[])
    ORDER BY o.run_at
    LIMIT u.limit_
    FOR NO KEY UPDATE SKIP LOCKED
) AS t

-- name: oldest_of
SELECT t.type_id, min(t.run_at) FROM timers AS t WHERE t.id = ANY ($1::uuid[]) AND t.run_at IS NOT NULL GROUP BY t.type_id

-- name: overdue_types
SELECT u.type_id
FROM unnest($1::bigint[], $2::bigint[]) AS u (type_id, low)
WHERE EXISTS (
    SELECT 1 FROM timers AS t WHERE t.type_id = u.type_id AND t.run_at >= u.low AND t.run_at < $3 AND t.state = 0
)

-- name: lapsed_types
SELECT u.type_id
FROM unnest($1::bigint[], $2::bigint[]) AS u (type_id, low)
WHERE EXISTS (
    SELECT 1 FROM timers AS t WHERE t.type_id = u.type_id AND t.run_at >= u.low AND t.run_at < $3 AND t.state = 1
)

-- name: page
-- Which ones is told by the index alone, of which each span reads a page's length; only those are read themselves.
SELECT {columns}
FROM (
    SELECT h.id
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS u (type_id, state, from_, until)
    CROSS JOIN LATERAL (
        SELECT p.due_at, p.id FROM timers AS p
        WHERE p.type_id = u.type_id AND p.state = u.state AND p.due_at >= u.from_ AND p.due_at < u.until
            AND (p.due_at, p.id) < ($5, $6)
        ORDER BY p.due_at DESC, p.id DESC
        LIMIT $7
    ) AS h
    ORDER BY h.due_at DESC, h.id DESC
    LIMIT $7
) AS head
JOIN timers AS t ON t.id = head.id
ORDER BY t.due_at DESC, t.id DESC

-- name: page_keys
SELECT t.due_at, t.id, coalesce(t.labels ->> $8 = $9, false)
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS u (type_id, state, from_, until)
CROSS JOIN LATERAL (
    SELECT p.due_at, p.id, p.labels FROM timers AS p
    WHERE p.type_id = u.type_id AND p.state = u.state AND p.due_at >= u.from_ AND p.due_at < u.until
        AND (p.due_at, p.id) < ($5, $6)
    ORDER BY p.due_at DESC, p.id DESC
    LIMIT $7
) AS t
ORDER BY t.due_at DESC, t.id DESC
LIMIT $7

-- name: by_ids
SELECT {columns} FROM timers AS t WHERE t.id = ANY ($1::uuid[]) ORDER BY t.due_at DESC, t.id DESC

-- name: tell_near
-- Nobody waits for what is only a word to be on disk.
SELECT pg_notify('lapse_near', n), set_config('synchronous_commit', 'off', true) FROM unnest($1::text[]) AS n

-- name: page_ascending
-- Which ones is told by the index alone, of which each span reads a page's length; only those are read themselves.
SELECT {columns}
FROM (
    SELECT h.id
    FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS u (type_id, state, from_, until)
    CROSS JOIN LATERAL (
        SELECT p.due_at, p.id FROM timers AS p
        WHERE p.type_id = u.type_id AND p.state = u.state AND p.due_at >= u.from_ AND p.due_at < u.until
            AND (p.due_at, p.id) > ($5, $6)
        ORDER BY p.due_at, p.id
        LIMIT $7
    ) AS h
    ORDER BY h.due_at, h.id
    LIMIT $7
) AS head
JOIN timers AS t ON t.id = head.id
ORDER BY t.due_at, t.id

-- name: page_keys_ascending
SELECT t.due_at, t.id, coalesce(t.labels ->> $8 = $9, false)
FROM unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS u (type_id, state, from_, until)
CROSS JOIN LATERAL (
    SELECT p.due_at, p.id, p.labels FROM timers AS p
    WHERE p.type_id = u.type_id AND p.state = u.state AND p.due_at >= u.from_ AND p.due_at < u.until
        AND (p.due_at, p.id) > ($5, $6)
    ORDER BY p.due_at, p.id
    LIMIT $7
) AS t
ORDER BY t.due_at, t.id
LIMIT $7

-- name: keys
SELECT t.key, t.type_id, t.id, t.state, t.due_at, t.labels::text
FROM unnest($1::bigint[], $2::text[]) AS u (type_id, low)
CROSS JOIN LATERAL (
    SELECT p.key, p.type_id, p.id, p.state, p.due_at, p.labels FROM timers AS p
    WHERE p.type_id = u.type_id AND p.key >= u.low AND ($3::text IS NULL OR p.key < $3)
    ORDER BY p.key
    LIMIT $4
) AS t
ORDER BY t.key, t.type_id
LIMIT $4

-- name: count_due
SELECT count(*) FROM (
    SELECT 1
    FROM unnest($1::bigint[]) AS u (type_id)
    CROSS JOIN unnest($2::smallint[]) AS s (state)
    CROSS JOIN LATERAL (
        SELECT 1 FROM timers AS t WHERE t.type_id = u.type_id AND t.state = s.state AND t.due_at < $3 LIMIT $4
    ) AS one
    LIMIT $4
) AS counted

-- name: upcoming
SELECT u.type_id, (t.run_at - $2) / $4 AS step, count(*), max(t.run_at)
FROM unnest($1::bigint[]) AS u (type_id)
CROSS JOIN LATERAL (
    SELECT f.run_at FROM timers AS f
    WHERE f.type_id = u.type_id AND f.run_at >= $2 AND f.run_at < $3
    ORDER BY f.run_at
    LIMIT $5
) AS t
GROUP BY u.type_id, step
ORDER BY u.type_id, step

-- name: payloads_under
SELECT CASE WHEN pinned THEN NULL ELSE payload END FROM timers
WHERE type_id = $1::bigint AND revision = $2::bigint AND state IN (0, 1, 6)
LIMIT $3::bigint
