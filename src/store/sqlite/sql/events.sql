-- name: insert
INSERT INTO events (timer, seq, mac, body) VALUES (?1, ?2, ?3, ?4)

-- name: after
SELECT mac, body FROM events WHERE timer = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3
