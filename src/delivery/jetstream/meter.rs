//! What is counted of the broker.

use metrics::{counter, describe_counter, describe_gauge, gauge};

use super::{health::Mode, stream::Counts};

pub(super) fn describe() {
    describe_gauge!("lapse_broker_connected", "1 while this node is connected to the broker");
    describe_gauge!("lapse_broker_degraded", "1 while this node keeps the time by itself, since the broker is away");
    describe_gauge!("lapse_broker_ready_messages", "Slots in the broker that no node has been given yet");
    describe_gauge!("lapse_broker_unacked_messages", "Slots that are handed out or handed back with delay");
    describe_gauge!("lapse_broker_consumers", "Consumers of the stream of slots");
    describe_gauge!("lapse_broker_settings_changed", "Settings of the stream that are not what they were made as");
    describe_counter!("lapse_broker_published_total", "Slots that this node published and no other had before");
    describe_counter!("lapse_broker_publish_failed_total", "Attempts to publish slots that failed");
    describe_counter!("lapse_broker_acked_total", "Slots that this node acknowledged");
    describe_counter!("lapse_broker_duplicates_total", "Messages of slots that this node had in hand by another one");
    describe_counter!("lapse_broker_dead_letters", "Messages acknowledged unread: too late, or not a slot at all");
    // Those that may stay at zero are there from the start.
    counter!("lapse_broker_published_total").increment(0);
    counter!("lapse_broker_publish_failed_total").increment(0);
    counter!("lapse_broker_acked_total").increment(0);
    counter!("lapse_broker_duplicates_total").increment(0);
    counter!("lapse_broker_dead_letters").increment(0);
    connected(false);
    mode(Mode::Broker);
}

pub(super) fn connected(is: bool) {
    gauge!("lapse_broker_connected").set(f64::from(u8::from(is)));
}

pub(super) fn mode(mode: Mode) {
    gauge!("lapse_broker_degraded").set(f64::from(u8::from(mode == Mode::Local)));
}

pub(super) fn published() {
    counter!("lapse_broker_published_total").increment(1);
}

pub(super) fn publish_failed() {
    counter!("lapse_broker_publish_failed_total").increment(1);
}

pub(super) fn acked() {
    counter!("lapse_broker_acked_total").increment(1);
}

pub(super) fn duplicate() {
    counter!("lapse_broker_duplicates_total").increment(1);
}

pub(super) fn dead_letter() {
    counter!("lapse_broker_dead_letters").increment(1);
}

pub(super) fn settings_changed(count: usize) {
    gauge!("lapse_broker_settings_changed").set(gauge_value(count as u64));
}

pub(super) fn counts(counts: &Counts) {
    gauge!("lapse_broker_ready_messages").set(gauge_value(counts.ready));
    gauge!("lapse_broker_unacked_messages").set(gauge_value(counts.unacked));
    gauge!("lapse_broker_consumers").set(gauge_value(counts.consumers));
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float, and counts stay far below 2^53")]
fn gauge_value(count: u64) -> f64 {
    count as f64
}
