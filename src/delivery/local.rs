//! Slots by the local clock, every shard this node's own.
