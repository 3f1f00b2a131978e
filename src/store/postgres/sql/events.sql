-- name: insert
INSERT INTO events (timer_id, seq, mac, body)
SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[])

-- name: after
SELECT mac, body FROM events WHERE timer_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
