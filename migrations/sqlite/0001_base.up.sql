-- What must hold over all rows: the number of shards, the catalogue's version.
CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO settings (name, value) VALUES ('catalogue_version', 1), ('pinged_at', 0);

CREATE TABLE namespaces (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL
) STRICT;

INSERT INTO namespaces (id, name, created_at)
VALUES (1, 'default', CAST(unixepoch('subsec') * 1000 AS INTEGER));

CREATE TABLE api_keys (
    id           BLOB PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    name         TEXT NOT NULL,
    role         TEXT NOT NULL,
    hash         BLOB NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    revoked_at   INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE plugins (
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    digest       BLOB NOT NULL,
    size         INTEGER NOT NULL,
    manifest     TEXT NOT NULL,
    imports      TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    bytes        BLOB NOT NULL,
    PRIMARY KEY (namespace_id, digest)
) STRICT;

CREATE TABLE types (
    id           INTEGER PRIMARY KEY,
    namespace_id INTEGER NOT NULL REFERENCES namespaces (id),
    name         TEXT NOT NULL,
    active       INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    UNIQUE (namespace_id, name)
) STRICT;

CREATE TABLE revisions (
    type_id       INTEGER NOT NULL REFERENCES types (id),
    number        INTEGER NOT NULL,
    digest        BLOB NOT NULL,
    config        TEXT NOT NULL,
    grants        TEXT NOT NULL,
    default_delay INTEGER,
    attempts      INTEGER NOT NULL,
    initial       INTEGER NOT NULL,
    max           INTEGER NOT NULL,
    concurrency   INTEGER,
    rate          INTEGER,
    created_at    INTEGER NOT NULL,
    created_by    TEXT NOT NULL,
    PRIMARY KEY (type_id, number)
) STRICT, WITHOUT ROWID;

-- `n` is the row's own number: other tables and indexes hold it in place of the id, which is twice as long.
CREATE TABLE timers (
    n            INTEGER PRIMARY KEY,
    id           BLOB NOT NULL UNIQUE,
    namespace_id INTEGER NOT NULL,
    type_id      INTEGER NOT NULL REFERENCES types (id),
    key          TEXT NOT NULL,
    shard        INTEGER NOT NULL,
    state        INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    run_at       INTEGER,
    attempt      INTEGER NOT NULL,
    lapses       INTEGER NOT NULL,
    version      INTEGER NOT NULL,
    revision     INTEGER NOT NULL,
    pinned       INTEGER NOT NULL,
    manual       INTEGER NOT NULL,
    depth        INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    settled_at   INTEGER,
    first_due_at INTEGER NOT NULL,
    actor        TEXT NOT NULL,
    fingerprint  BLOB,
    message_id   TEXT,
    head         BLOB NOT NULL,
    labels       TEXT NOT NULL,
    outcome      TEXT,
    payload      TEXT NOT NULL,
    UNIQUE (type_id, key)
) STRICT;

CREATE INDEX timers_by_shard ON timers (shard, run_at, id) WHERE run_at IS NOT NULL;
CREATE INDEX timers_by_type ON timers (type_id, run_at) WHERE run_at IS NOT NULL;
-- Leases: few, and none where every decision is pure.
CREATE INDEX timers_firing ON timers (type_id, run_at) WHERE state = 1;
CREATE INDEX timers_list ON timers (type_id, state, due_at, id);

-- `body` is the event's exact bytes, which `mac` covers.
CREATE TABLE events (
    timer INTEGER NOT NULL REFERENCES timers (n),
    seq   INTEGER NOT NULL,
    mac   BLOB NOT NULL,
    body  TEXT NOT NULL,
    PRIMARY KEY (timer, seq)
) STRICT, WITHOUT ROWID;

-- `seq` is the event that made it: with it, a decision's compensations can exist only once.
CREATE TABLE compensations (
    n             INTEGER PRIMARY KEY,
    id            BLOB NOT NULL UNIQUE,
    timer         INTEGER NOT NULL REFERENCES timers (n),
    seq           INTEGER NOT NULL,
    type_id       INTEGER NOT NULL,
    kind          TEXT NOT NULL,
    revision      INTEGER NOT NULL,
    state         INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    first_attempt INTEGER NOT NULL,
    run_at        INTEGER,
    fence         INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    settled_at    INTEGER,
    last_error    TEXT,
    result        TEXT,
    payload       TEXT NOT NULL,
    UNIQUE (timer, seq)
) STRICT;

CREATE INDEX compensations_lane ON compensations (type_id, kind, run_at) WHERE run_at IS NOT NULL;
-- With the kind, so that those of one kind are found without a look at the rows.
CREATE INDEX compensations_list ON compensations (state, type_id, created_at, id, kind);
