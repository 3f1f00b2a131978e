//! The HTTP API: routes, one file a resource, errors, rights, pages.
