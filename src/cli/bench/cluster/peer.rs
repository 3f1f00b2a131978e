//! What a service does without Lapse: a table of orders that workers poll every 100 ms. The close is conditional, and its
//! outbox's rows stand in the same transaction; nobody delivers them, so it is the lesser work.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_postgres::{Client, NoTls};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        super::Result,
        measure::{Quantiles, Times},
    },
    usage::{Share, Usage, Watched},
};

const POLL_EVERY: Duration = Duration::from_millis(100);
/// How long after the last due time it is given to come to its end.
const PATIENCE: Duration = Duration::from_mins(1);

const TABLES: &str = "
    DROP TABLE IF EXISTS bench_orders, bench_outbox;
    CREATE TABLE bench_orders (
        id bigint PRIMARY KEY, due_at timestamptz NOT NULL, settled_at timestamptz, state smallint NOT NULL, payload text
    );
    CREATE INDEX ON bench_orders (due_at) WHERE state = 0;
    CREATE TABLE bench_outbox (id bigserial PRIMARY KEY, order_id bigint NOT NULL, payload text)";

const FILL: &str = "
    INSERT INTO bench_orders
    SELECT n, clock_timestamp() + interval '3 seconds' + n * interval '1 second' / $1::float8, NULL, 0, repeat('x', 150)
    FROM generate_series(0, $2::bigint - 1) AS n";

const POLL: &str = "
    WITH due AS (
        SELECT id FROM bench_orders WHERE state = 0 AND due_at <= clock_timestamp()
        ORDER BY due_at LIMIT 500 FOR UPDATE SKIP LOCKED
    ), closed AS (
        UPDATE bench_orders AS o SET state = 1, settled_at = clock_timestamp() FROM due
        WHERE o.id = due.id AND o.state = 0
        RETURNING o.id
    ), outbox AS (
        INSERT INTO bench_outbox (order_id, payload)
        SELECT id, repeat('x', 100) FROM closed, generate_series(1, $1::int)
    )
    SELECT count(*) FROM closed";

#[derive(Serialize)]
pub struct Polled {
    pub lateness: Quantiles,
    /// Not closed in time.
    pub left: i64,
    pub cpu: Vec<Share>,
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.map_err(anyhow::Error::from)?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

pub struct PeerParams<'a> {
    pub database: &'a str,
    pub workers: u16,
    pub rate: u64,
    pub seconds: u64,
    pub outbox: u16,
    pub watch: &'a [Watched],
}

/// The same number of workers as there are nodes, and the same load.
pub async fn measure(params: PeerParams<'_>) -> Result<Polled> {
    let PeerParams { database, workers, rate, seconds, outbox, watch } = params;
    let sql = connect(database).await?;
    sql.batch_execute(TABLES).await.map_err(anyhow::Error::from)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate below 2^53")]
    let per_second = rate as f64;
    let count = i64::try_from(rate * seconds).unwrap_or(i64::MAX);
    let began = Instant::now();
    sql.execute(FILL, &[&per_second, &count]).await.map_err(anyhow::Error::from)?;
    let usage = Usage::begin(watch);
    let stopping = CancellationToken::new();
    let mut polling = Vec::new();
    for _ in 0..workers {
        polling.push(tokio::spawn(poll(connect(database).await?, i32::from(outbox), stopping.clone())));
    }
    usage.mark();
    tokio::time::sleep(Duration::from_secs(seconds + 3).saturating_sub(began.elapsed())).await;
    usage.mark();
    let left = "SELECT count(*) FROM bench_orders WHERE state = 0";
    let patience = Instant::now();
    let left = loop {
        let left: i64 = sql.query_one(left, &[]).await.map_err(anyhow::Error::from)?.get(0);
        if left == 0 || patience.elapsed() > PATIENCE {
            break left;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    stopping.cancel();
    for worker in polling {
        worker.await.map_err(anyhow::Error::from)??;
    }
    let late = "SELECT (extract(epoch FROM settled_at - due_at) * 1000000)::bigint FROM bench_orders WHERE state = 1";
    let mut times = Times::new();
    for row in sql.query(late, &[]).await.map_err(anyhow::Error::from)? {
        times.note(Duration::from_micros(u64::try_from(row.get::<_, i64>(0)).unwrap_or(0)));
    }
    sql.batch_execute("DROP TABLE bench_orders, bench_outbox").await.map_err(anyhow::Error::from)?;
    Ok(Polled { lateness: times.quantiles(), left, cpu: usage.end() })
}

/// Closes what is due, without a pause while there is more than a batch of it.
async fn poll(sql: Client, outbox: i32, stopping: CancellationToken) -> Result {
    let statement = sql.prepare(POLL).await.map_err(anyhow::Error::from)?;
    while !stopping.is_cancelled() {
        let closed: i64 = sql.query_one(&statement, &[&outbox]).await.map_err(anyhow::Error::from)?.get(0);
        if closed < 500 {
            tokio::time::sleep(POLL_EVERY).await;
        }
    }
    Ok(())
}
