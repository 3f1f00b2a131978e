-- What is kept from firing: everything (0, 0), a namespace (its id, 0), or a type (0, its id).
CREATE TABLE pauses (
    namespace_id INTEGER NOT NULL,
    type_id      INTEGER NOT NULL,
    reason       TEXT NOT NULL,
    since        INTEGER NOT NULL,
    until        INTEGER,
    paused_by    TEXT NOT NULL,
    PRIMARY KEY (namespace_id, type_id)
) STRICT, WITHOUT ROWID;
