-- name: columns
s.namespace_id, s.kind, s.name, s.open, s.sealed, s.created_at, s.updated_at, s.updated_by

-- name: by_name
SELECT {columns}
FROM sealed AS s JOIN namespaces AS n ON n.id = s.namespace_id
WHERE n.name = $1 AND s.kind = $2 AND s.name = $3

-- name: list
SELECT {columns} FROM sealed AS s WHERE s.namespace_id = $1::bigint AND s.kind = $2 ORDER BY s.name

-- name: get
SELECT {columns} FROM sealed AS s WHERE s.namespace_id = $1::bigint AND s.kind = $2 AND s.name = $3

-- name: put
INSERT INTO sealed (namespace_id, kind, name, open, sealed, created_at, updated_at, updated_by)
VALUES ($1::bigint, $2, $3, $4, $5, $6, $6, $7)
ON CONFLICT (namespace_id, kind, name)
DO UPDATE SET open = excluded.open, sealed = excluded.sealed, updated_at = excluded.updated_at,
    updated_by = excluded.updated_by

-- name: delete
DELETE FROM sealed WHERE namespace_id = $1::bigint AND kind = $2 AND name = $3
