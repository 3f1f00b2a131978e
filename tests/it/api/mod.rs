//! The HTTP API, over the real router and a real store.

mod document;
