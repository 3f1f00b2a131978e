-- A deleted revision is neither activated nor pinned any more. Its row stays, so that a number never means two things, and
-- so that what was registered under it a moment before still finds it.
ALTER TABLE revisions ADD COLUMN deleted_at INTEGER;

-- Who still needs a revision: timers that are not final, and compensations that are not done. Partial, so that
-- what is over costs nothing.
CREATE INDEX timers_by_revision ON timers (type_id, revision) WHERE state IN (0, 1, 6);
CREATE INDEX compensations_by_revision ON compensations (type_id, revision) WHERE state IN (0, 1, 3);
