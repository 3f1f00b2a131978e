//! Text that came from a guest, before it is kept or shown.

use std::borrow::Cow;

/// At most `max` bytes of it, whole characters, without U+0000 (which no database takes).
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = &text[..end];
    if kept.contains('\0') { Cow::Owned(kept.replace('\0', "\u{fffd}")) } else { Cow::Borrowed(kept) }
}
