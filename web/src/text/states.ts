export const states = {
  scheduled: "scheduled",
  firing: "firing",
  closed: "closed",
  skipped: "skipped",
  resolved: "resolved",
  cancelled: "cancelled",
  failed: "failed",
  overdue: "overdue",
  retrying: "retrying",
  pending: "pending",
  running: "running",
  done: "done",
  dead: "dead",
} as const;

export const meanings = {
  scheduled: "Waiting for its time",
  firing: "A node is deciding it now",
  closed: "It expired and its plugin closed it",
  skipped: "Its plugin found the matter already settled",
  resolved: "The business settled it before it expired",
  cancelled: "It was withdrawn; no plugin ran",
  failed: "Out of tries, or failed for good; a person can act",
  overdue: "Its time has passed and it has not been decided",
  retrying: "An attempt failed or asked to be repeated; another follows",
  pending: "Waiting for its turn",
  running: "A node is carrying it out now",
  done: "Carried out",
  dead: "Out of attempts, or failed for good; a person must redrive it",
} as const;

export const attempt = (n: number | bigint) => `attempt ${n}`;
