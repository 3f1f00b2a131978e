//! Lengths of time in words.

use crate::domain::time::DurationMs;

/// In its largest unit, rounded down: `4 minutes`.
pub(super) fn length(length: DurationMs) -> String {
    let ms = length.as_millis();
    let (count, unit) = match ms {
        0..1_000 => return format!("{ms} ms"),
        1_000..60_000 => (ms / 1_000, "second"),
        60_000..3_600_000 => (ms / 60_000, "minute"),
        3_600_000..172_800_000 => (ms / 3_600_000, "hour"),
        _ => (ms / 86_400_000, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}
