//! `lapse timer`.

mod act;
mod explain;
mod load;
mod look;
mod register;

use clap::{Args, Subcommand};

use crate::client::{self, Client, segment};

use super::{Result, connect::Connect, error::Error, output::Out};

pub use self::{
    look::pages,
    register::{payload, unreadable},
};

#[derive(Subcommand)]
pub enum Timer {
    Register(register::Register),
    /// Show one timer
    Get(look::Get),
    /// List timers, newest due first
    List(look::List),
    /// Show all that happened to a timer
    Events(look::Events),
    /// Say why a timer has not fired, or how it ended
    Explain(explain::Explain),
    /// Say that the business got there first: paid, shipped
    Resolve(act::Resolve),
    /// Withdraw a timer
    Cancel(act::Cancel),
    /// Give a timer another due time
    Reschedule(act::Reschedule),
    /// Let a timer expire now
    Fire(act::Fire),
    /// Let a failed timer try again
    Retry(act::Retry),
}

impl Timer {
    pub async fn run(self, out: &Out) -> Result {
        match self {
            Self::Register(register) => register.run(out).await,
            Self::Get(get) => get.run(out).await,
            Self::List(list) => list.run(out).await,
            Self::Events(events) => events.run(out).await,
            Self::Explain(explain) => explain.run(out).await,
            Self::Resolve(resolve) => resolve.run(out).await,
            Self::Cancel(cancel) => cancel.run(out).await,
            Self::Reschedule(reschedule) => reschedule.run(out).await,
            Self::Fire(fire) => fire.run(out).await,
            Self::Retry(retry) => retry.run(out).await,
        }
    }
}

/// One timer: by id, or by type and key.
#[derive(Args, Clone, Debug)]
struct Target {
    /// The timer's id
    #[arg(value_name = "ID", required_unless_present_all = ["timer_type", "key"], conflicts_with_all = ["timer_type", "key"])]
    id: Option<String>,
    /// The timer's type, with --key
    #[arg(long = "type", short = 't', value_name = "TYPE", requires = "key")]
    timer_type: Option<String>,
    /// The timer's key, with --type
    #[arg(long, short = 'k', value_name = "KEY", requires = "timer_type")]
    key: Option<String>,
}

impl Target {
    /// The timer's path, `v1/…`. A key that no path can hold is looked up first.
    async fn path(&self, client: &Client) -> Result<String> {
        match (&self.id, &self.timer_type, &self.key) {
            (Some(id), _, _) => Ok(format!("v1/timers/{}", segment(id))),
            (None, Some(timer_type), Some(key)) if client::fits_a_path(key) => {
                Ok(format!("v1/types/{}/timers/{}", segment(timer_type), segment(key)))
            }
            (None, Some(timer_type), Some(key)) => {
                let query = [("type", timer_type.clone()), ("key", key.clone())];
                let page: client::Page<client::Timer> = client.get("v1/timers", &query).await?;
                match page.items.first() {
                    Some(timer) => Ok(format!("v1/timers/{}", segment(&timer.id))),
                    None => Err(anyhow::anyhow!("there is no timer of type {timer_type} with the key {key:?}").into()),
                }
            }
            _ => Err(Error::usage("name a timer by its id, or with --type and --key")),
        }
    }

    async fn get(&self, client: &Client) -> Result<client::Timer> {
        Ok(client.get(&self.path(client).await?, &[]).await?)
    }
}
