//! Names and texts that are safe to stand in code.

use std::{collections::BTreeSet, fmt::Write as _};

/// The longest name that is made of a longer one.
const MAX_NAME: usize = 100;

/// `Order-timeout v2` becomes `order_timeout_v2`.
pub fn snake(text: &str) -> String {
    let words: Vec<String> = words(text);
    let name: String = words.join("_").chars().take(MAX_NAME).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) { format!("x{name}") } else { name }
}

/// `order_timeout` becomes `OrderTimeout`.
pub fn pascal(text: &str) -> String {
    let capitalised = words(text).into_iter().map(|word| {
        let mut letters = word.chars();
        letters.next().map(|c| c.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    });
    let name: String = capitalised.collect::<String>().chars().take(MAX_NAME).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) { format!("X{name}") } else { name }
}

/// Runs of ASCII letters and digits, in lower case; a capital after a small letter begins a word.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for c in text.chars() {
        let begins = c.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit());
        if begins || !c.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if c.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The name, or the name with the first number that makes it one of its own.
pub fn unique(wanted: &str, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.to_owned();
    let mut number = 1;
    while !taken.insert(name.clone()) {
        number += 1;
        name = format!("{wanted}{number}");
    }
    name
}

/// Whether it can stand as a name in both languages.
pub fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A string literal, in either language.
pub fn quoted(text: &str) -> String {
    let mut literal = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => literal.extend(['\\', c]),
            '\n' => literal.push_str("\\n"),
            // Both languages have this escape, and nothing that is hidden is beyond it.
            c if is_hidden(c) => {
                let _ = write!(literal, "\\u{:04x}", u32::from(c));
            }
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

/// One paragraph of a comment, which it cannot end.
pub fn comment(text: &str) -> String {
    let shown: String = text.chars().map(|c| if c.is_whitespace() || is_hidden(c) { ' ' } else { c }).collect();
    let words: Vec<&str> = shown.split_whitespace().collect();
    words.join(" ").replace("*/", "* /").replace('\\', "/").replace("\"\"\"", "'''").trim_end_matches('"').to_owned()
}

/// Controls, and what changes how the text around it is shown.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}
