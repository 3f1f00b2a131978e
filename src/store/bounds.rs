//! What one answer may cost, whatever is asked for: the same on both databases.

/// Rows of one page.
pub const MAX_PAGE: usize = 1_000;
/// Rows that one page looks at for those that fit a filter which no index serves.
pub const MAX_LOOKED_AT: usize = 5_000;
/// The same of a page by the start of a key, in all types together.
pub const MAX_LOOKED_AT_BY_PREFIX: usize = 1_000;
/// Compensations of one timer that are looked at.
pub const MAX_OF_TIMER: usize = 10_000;
/// Spans that one page merges; a query over more types and states is answered over the first ones only.
pub const MAX_SPANS: usize = 20_000;
/// Types that one answer is made of; of more, the first ones.
pub const MAX_TYPES: usize = 10_000;
/// Timers of one type that a forecast looks at.
pub const MAX_UPCOMING: usize = 1_000_000;
