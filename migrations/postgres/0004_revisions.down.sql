DROP INDEX compensations_by_revision;
DROP INDEX timers_by_revision;
ALTER TABLE revisions DROP COLUMN deleted_at;
