//! What a statement may say. This does not read SQL: it looks at the first word, and, where the database has parameters
//! without numbers, for `$1`, `$2` and so on. That a text is one statement is the database's own check, since each is
//! prepared.

use super::{Dialect, Error, MAX_PARAMETERS, MAX_STATEMENTS, MAX_TEXT_BYTES, Statement};

/// What reads and changes rows, and cannot end a transaction. MySQL commits before most other statements, and a procedure
/// of its may commit by itself, so none is called there.
const VERBS: &[&str] = &["select", "insert", "update", "delete", "with", "values", "replace", "merge", "table"];
const POSTGRES_VERBS: &[&str] = &["call"];
/// For these the refusal says more.
const TRANSACTION: &[&str] = &[
    "begin",
    "start",
    "commit",
    "end",
    "rollback",
    "abort",
    "savepoint",
    "release",
    "set",
    "prepare",
    "lock",
    "unlock",
    "xa",
];

/// Holds a batch to its bounds, and puts its statements into the database's own form.
pub fn check(dialect: Dialect, statements: Vec<Statement>, max_bytes: u64) -> Result<Vec<Statement>, Error> {
    if statements.is_empty() {
        return Err(Error::Invalid(Error::fault(0, "the batch has no statements")));
    }
    if statements.len() > MAX_STATEMENTS {
        let why = format!("a batch has at most {MAX_STATEMENTS} statements; this one has {}", statements.len());
        return Err(Error::TooLarge(why));
    }
    let mut bytes = 0_u64;
    let mut checked = Vec::with_capacity(statements.len());
    for (at, statement) in statements.into_iter().enumerate() {
        let invalid = |why: String| Error::Invalid(Error::fault(at, why));
        if statement.text.len() > MAX_TEXT_BYTES {
            return Err(Error::TooLarge(format!("a statement has at most {MAX_TEXT_BYTES} bytes")));
        }
        if statement.text.contains('\0') {
            return Err(invalid("the statement has a U+0000 in it".to_owned()));
        }
        if statement.parameters.len() > MAX_PARAMETERS {
            return Err(Error::TooLarge(format!("a statement has at most {MAX_PARAMETERS} parameters")));
        }
        bytes = bytes.saturating_add(statement.parameters.iter().map(|p| p.size() as u64).sum::<u64>());
        if bytes > max_bytes {
            return Err(Error::TooLarge(format!("a batch's parameters have at most {max_bytes} bytes")));
        }
        check_verb(dialect, &statement.text).map_err(invalid)?;
        checked.push(if dialect == Dialect::Mysql { positional(statement).map_err(invalid)? } else { statement });
    }
    Ok(checked)
}

fn check_verb(dialect: Dialect, text: &str) -> Result<(), String> {
    let rest = behind_comments(dialect, text)?;
    let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
    let verb = rest[..end].to_ascii_lowercase();
    let more: &[&str] = if dialect == Dialect::Postgres { POSTGRES_VERBS } else { &[] };
    if VERBS.contains(&verb.as_str()) || more.contains(&verb.as_str()) {
        return Ok(());
    }
    if TRANSACTION.contains(&verb.as_str()) {
        return Err(format!("{verb} is not for a statement to say: the transaction is the host's"));
    }
    Err(format!("a statement begins with one of {}", [VERBS, more].concat().join(", ")))
}

/// What stands behind white space, comments and opening parentheses.
fn behind_comments(dialect: Dialect, text: &str) -> Result<&str, String> {
    let mut rest = text;
    // Each step takes at least a byte.
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        if rest.starts_with("--") || (dialect == Dialect::Mysql && rest.starts_with('#')) {
            rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
        } else if let Some(inside) = rest.strip_prefix("/*") {
            if inside.starts_with('!') || inside.starts_with("M!") {
                return Err("a comment that is carried out is not taken".to_owned());
            }
            rest = behind_comment(dialect, inside).ok_or("a comment does not end")?;
        } else {
            return Ok(rest);
        }
    }
}

/// In PostgreSQL comments nest.
fn behind_comment(dialect: Dialect, inside: &str) -> Option<&str> {
    let mut depth = 1_usize;
    let mut rest = inside;
    loop {
        let close = rest.find("*/")?;
        let open = rest.find("/*").filter(|open| dialect == Dialect::Postgres && *open < close);
        if let Some(open) = open {
            depth += 1;
            rest = &rest[open + 2..];
        } else {
            depth -= 1;
            rest = &rest[close + 2..];
            if depth == 0 {
                return Some(rest);
            }
        }
    }
}

/// Writes `?` for `$1`, `$2` …, and puts the parameters into that order.
fn positional(statement: Statement) -> Result<Statement, String> {
    let Statement { text, parameters, expect_rows } = statement;
    let mut out = String::with_capacity(text.len());
    let mut ordered = Vec::with_capacity(parameters.len());
    let mut used = vec![false; parameters.len()];
    let mut rest = text.as_str();
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let taken = match c {
            '\'' | '"' | '`' => quoted(rest, c),
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '-' if rest.starts_with("-- ") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '$' if !before.is_alphanumeric() && !matches!(before, '_' | '$') => {
                let digits = rest[1..].bytes().take_while(u8::is_ascii_digit).count();
                if digits > 0 {
                    let number: usize = rest[1..=digits].parse().unwrap_or(usize::MAX);
                    let missing = || format!("there is no parameter ${number}");
                    let at = number.checked_sub(1).ok_or_else(missing)?;
                    if ordered.len() >= MAX_PARAMETERS {
                        return Err(format!("a statement names parameters at most {MAX_PARAMETERS} times"));
                    }
                    ordered.push(parameters.get(at).ok_or_else(missing)?.clone());
                    used[at] = true;
                    out.push('?');
                    before = '?';
                    rest = &rest[1 + digits..];
                    continue;
                }
                1
            }
            '?' => return Err("write parameters as $1, $2 and so on".to_owned()),
            c => c.len_utf8(),
        };
        out.push_str(&rest[..taken]);
        before = c;
        rest = &rest[taken..];
    }
    if let Some(unused) = used.iter().position(|used| !used) {
        return Err(format!("the parameter ${} is not used", unused + 1));
    }
    Ok(Statement { text: out, parameters: ordered, expect_rows })
}

/// The length of what is in quotes, with them. A doubled quote begins another such, which comes to the same.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' && quote != '`' {
            escaped = true;
        } else if c == quote {
            return at + c.len_utf8();
        }
    }
    text.len()
}
