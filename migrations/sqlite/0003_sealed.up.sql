-- What is kept sealed: secrets, and the passwords of data sources with what may be read of them. `sealed` is opaque to
-- the database: the key is the server's.
CREATE TABLE sealed (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    kind         INTEGER NOT NULL,
    name         TEXT NOT NULL,
    open         TEXT NOT NULL,
    sealed       BLOB NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    updated_by   TEXT NOT NULL,
    PRIMARY KEY (namespace_id, kind, name)
) STRICT, WITHOUT ROWID;
