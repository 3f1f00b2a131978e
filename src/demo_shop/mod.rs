//! The demo shop: a tiny order, inventory and coupon service to try Lapse on.
