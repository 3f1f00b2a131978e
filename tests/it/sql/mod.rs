//! Data sources: batches on real databases, from the seam and from guests that mean no good.

mod batches;
mod bed;
mod hostile;
mod order_timeout;
mod secrets;
mod tls;
