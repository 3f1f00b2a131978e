//! What plugins speak: a module for each version of `wit/`, each turned into the domain's terms.

pub mod v1;
