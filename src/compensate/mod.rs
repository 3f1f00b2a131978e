//! Compensation lanes: claim, run, back off, dead letter, redrive.
