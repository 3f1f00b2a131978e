-- The rights that were taken from a type, as a JSON array: no revision of it has them any more, whatever it was granted.
ALTER TABLE types ADD COLUMN revoked text NOT NULL DEFAULT '[]';
