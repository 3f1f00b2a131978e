-- What is kept from firing: everything (0, 0), a namespace (its id, 0), or a type (0, its id).
CREATE TABLE pauses (
    namespace_id integer NOT NULL,
    type_id      integer NOT NULL,
    reason       text NOT NULL,
    since        bigint NOT NULL,
    until        bigint,
    paused_by    text NOT NULL,
    PRIMARY KEY (namespace_id, type_id)
);

-- A node that only registers has no part in the shards.
ALTER TABLE nodes ADD COLUMN fires boolean NOT NULL DEFAULT true;
