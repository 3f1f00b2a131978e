-- name: after
SELECT mac, body FROM events WHERE timer_id = $1 AND seq > $2 ORDER BY seq LIMIT $3
