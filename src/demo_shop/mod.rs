//! The demo shop: a tiny order, inventory and coupon service to try Lapse on, and to count its effects in tests.
//!
//! It knows nothing of Lapse. An order is closed by compare-and-set, every effect is idempotent by its
//! `Idempotency-Key`, and for each key both the calls and the effects are counted. With a journal it keeps its records
//! over a kill: a call is answered only once its record is on disk.
//!
//! | Call | Does |
//! |---|---|
//! | `PUT /orders/{id}` `{items?: [{sku, quantity}]}` | creates the order, `unpaid`, and reserves its items |
//! | `POST /orders/{id}/pay` | 200, or 409 if it is closed |
//! | `POST /orders/{id}/close` `{expected_state}` | 200; 409 with the state it is in; 404 |
//! | `POST /inventory/release` `{order_id, sku, quantity}` | puts the items back in stock |
//! | `POST /coupons/return` `{order_id, coupon_id}` | gives the coupon back |
//! | `GET /orders` · `/orders/{id}` · `/stock` · `/coupons` · `/calls[?order_id=]` | what it knows |
//! | `POST /faults` `{fail_next, status, delay_ms, after_effect}` | the next calls go wrong |

mod journal;
mod ledger;
mod routes;
mod types;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{net::TcpListener, sync::Semaphore, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use self::{
    journal::Journal,
    ledger::{Answer, Ledger, Request},
};

pub use self::types::{CHECKED, COMPONENT, ExampleType, UNCHECKED, example_types, small_order};

/// Calls that are carried out at once; the others wait. Bounds the journal's queue too.
const CALLS_AT_ONCE: usize = 1024;

#[derive(Clone, Debug)]
pub struct Options {
    pub listen: SocketAddr,
    /// Where the shop's records are kept; without it they end with the process.
    pub journal: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the demo shop cannot listen on {address}: {why}")]
    Listen { address: SocketAddr, why: std::io::Error },
    #[error("the demo shop's journal {} is in use by another process", .0.display())]
    InUse(PathBuf),
    #[error("the demo shop's journal {}: {why}", path.display())]
    Journal { path: PathBuf, why: std::io::Error },
    #[error("the demo shop's journal {}, line {line}, is not one of its records: {why}", path.display())]
    Corrupt { path: PathBuf, line: usize, why: serde_json::Error },
}

/// A running shop. Dropping it does not stop it; [`Shop::stop`] does.
#[derive(Debug)]
pub struct Shop {
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Shop {
    /// Replays the journal, and listens.
    pub async fn start(options: Options) -> Result<Self, Error> {
        let mut ledger = Ledger::default();
        let journal = options.journal.as_deref().map(|path| open(path, &mut ledger)).transpose()?;
        let listen = |why| Error::Listen { address: options.listen, why };
        let listener = TcpListener::bind(options.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let counter = Arc::new(Counter {
            books: Mutex::new(Books { ledger, journal }),
            faults: Mutex::default(),
            permits: Semaphore::new(CALLS_AT_ONCE),
        });
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        let task = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes::router(counter)).with_graceful_shutdown(stopped).await {
                tracing::error!(%error, "the demo shop stopped serving");
            }
        });
        Ok(Self { address, stop, task })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers what has been asked, then stops.
    pub async fn stop(self) {
        self.stop.cancel();
        // A connection that is kept open must not hold the stop up.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), self.task).await;
    }
}

fn open(path: &Path, ledger: &mut Ledger) -> Result<Journal, Error> {
    let (journal, requests) = Journal::open(path)?;
    for request in requests {
        ledger.apply(request);
    }
    Ok(journal)
}

/// What all calls share.
struct Counter {
    books: Mutex<Books>,
    faults: Mutex<Faults>,
    permits: Semaphore,
}

struct Books {
    ledger: Ledger,
    journal: Option<Journal>,
}

/// What the next calls are to suffer.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Faults {
    /// How many calls.
    fail_next: u32,
    /// What they are answered; without it they are only delayed.
    status: Option<u16>,
    delay_ms: u64,
    /// Whether the effect takes place all the same: the answer is what is lost.
    after_effect: bool,
}

impl Counter {
    /// Carries a request out and waits until it is on disk. An error is the journal's.
    async fn carry_out(&self, request: Request) -> Result<Answer, String> {
        let _permit = self.permits.acquire().await.map_err(|e| e.to_string())?;
        let (answer, written) = {
            let mut books = self.books.lock();
            // Under one lock, so that the journal has the requests in the order in which they took effect.
            let written = books.journal.as_ref().map(|j| j.append(&request));
            (books.ledger.apply(request), written)
        };
        if let Some(written) = written {
            written.await.unwrap_or_else(|_| Err("the journal's writer is gone".into()))?;
        }
        Ok(answer)
    }

    /// The fault that this call is to suffer, if any.
    fn next_fault(&self) -> Option<Faults> {
        let mut faults = self.faults.lock();
        if faults.fail_next == 0 {
            return None;
        }
        faults.fail_next -= 1;
        Some(faults.clone())
    }
}
