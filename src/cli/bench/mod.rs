//! `lapse bench`: measures a running server from outside, by the API alone; or a cluster that it starts itself.

mod cluster;
mod expire;
mod measure;
mod neighbours;
mod race;
mod register;
mod work;

use clap::Subcommand;

use super::{Result, output::Out};

#[derive(Subcommand)]
pub enum Bench {
    /// How many registrations a second, and how long each takes
    Register(register::Register),
    Expire(expire::Expire),
    Race(race::Race),
    Neighbours(neighbours::Neighbours),
    Cluster(cluster::Cluster),
}

impl Bench {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Register(register) => register.run(out).await,
            Self::Expire(expire) => expire.run(out).await,
            Self::Race(race) => race.run(out).await,
            Self::Neighbours(neighbours) => neighbours.run(out).await,
            Self::Cluster(cluster) => cluster.run(out).await,
        }
    }
}
