//! What makes two registrations the same: a hash over the request as given.
//!
//! The delay counts, not the due time that it led to, so that a client may repeat its request unchanged. The payload is
//! compared by meaning where JSON leaves no doubt (order of an object's members, white space, escapes in strings), and
//! by its text where it does (`1`, `1.0` and `1e0` differ).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::{
    id::{TimerKey, TypeId},
    timer::Due,
};

/// The deepest nesting that is put in order; the JSON reader refuses what is deeper.
const MAX_DEPTH: usize = 128;

/// A registration as it was given.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    pub type_id: TypeId,
    pub key: &'a TimerKey,
    /// JSON text.
    pub payload: &'a str,
    /// `None` where the type's default delay was meant.
    pub due: Option<Due>,
    pub labels: &'a BTreeMap<String, String>,
    /// The pinned revision.
    pub revision: Option<i64>,
}

impl Registration<'_> {
    /// SHA-256 over every field, each behind its length, so that no two registrations share their bytes.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        field(&self.type_id.0.to_be_bytes());
        field(self.key.as_str().as_bytes());
        field(canonical(self.payload).as_deref().unwrap_or(self.payload).as_bytes());
        match self.due {
            None => field(b"default"),
            Some(Due::At(at)) => field(format!("at {}", at.as_millis()).as_bytes()),
            Some(Due::After(delay)) => field(format!("after {}", delay.as_millis()).as_bytes()),
        }
        for (name, value) in self.labels {
            field(name.as_bytes());
            field(value.as_bytes());
        }
        field(b"labels end");
        field(&self.revision.unwrap_or(0).to_be_bytes());
        hash.finalize().into()
    }
}

/// JSON text without white space, objects' members in order of their names, strings escaped one way, numbers as given.
/// `None` if the text is not JSON or is nested too deeply.
pub fn canonical(json: &str) -> Option<String> {
    let mut reader = Reader { text: json, at: 0 };
    let mut out = String::with_capacity(json.len());
    reader.value(&mut out, 0)?;
    reader.skip_space();
    (reader.at == json.len()).then_some(out)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(|b| matches!(b, b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Takes `byte` if it is what comes next but for white space.
    fn take(&mut self, byte: u8) -> bool {
        self.skip_space();
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.skip_space();
        match self.peek()? {
            _ if depth > MAX_DEPTH => return None,
            b'{' => self.object(out, depth)?,
            b'[' => self.array(out, depth)?,
            b'"' => out.push_str(&self.string()?),
            _ => out.push_str(self.scalar()?),
        }
        Some(())
    }

    fn object(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        let mut members: Vec<(String, String)> = Vec::new();
        if !self.take(b'}') {
            loop {
                self.skip_space();
                let name = self.string()?;
                if !self.take(b':') {
                    return None;
                }
                let mut value = String::new();
                self.value(&mut value, depth + 1)?;
                members.push((name, value));
                if !self.take(b',') {
                    break;
                }
            }
            if !self.take(b'}') {
                return None;
            }
        }
        // Stable: of members with one name the order counts.
        members.sort_by(|a, b| a.0.cmp(&b.0));
        out.push('{');
        for (i, (name, value)) in members.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            out.push_str(name);
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        Some(())
    }

    fn array(&mut self, out: &mut String, depth: usize) -> Option<()> {
        self.at += 1;
        out.push('[');
        if !self.take(b']') {
            loop {
                self.value(out, depth + 1)?;
                if !self.take(b',') {
                    break;
                }
                out.push(',');
            }
            if !self.take(b']') {
                return None;
            }
        }
        out.push(']');
        Some(())
    }

    /// A string, read and written anew.
    fn string(&mut self) -> Option<String> {
        let start = self.at;
        if self.peek() != Some(b'"') {
            return None;
        }
        self.at += 1;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        let read: String = serde_json::from_str(self.text.get(start..self.at)?).ok()?;
        serde_json::to_string(&read).ok()
    }

    /// A number, `true`, `false` or `null`.
    fn scalar(&mut self) -> Option<&'a str> {
        let start = self.at;
        while self.peek().is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'+' | b'.')) {
            self.at += 1;
        }
        (self.at > start).then(|| &self.text[start..self.at])
    }
}
