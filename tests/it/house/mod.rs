//! The house keeps its own rules: which room may use which, and what the licences and documents say.

mod arrows;
