-- What is kept sealed: secrets, and the passwords of data sources with what may be read of them. `sealed` is opaque to
-- the database: the key is the server's.
CREATE TABLE sealed (
    namespace_id integer NOT NULL REFERENCES namespaces (id),
    kind         smallint NOT NULL,
    name         text COLLATE "C" NOT NULL,
    open         text NOT NULL,
    sealed       bytea NOT NULL,
    created_at   bigint NOT NULL,
    updated_at   bigint NOT NULL,
    updated_by   text NOT NULL,
    PRIMARY KEY (namespace_id, kind, name)
);
