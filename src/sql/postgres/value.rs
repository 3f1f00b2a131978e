//! Values in PostgreSQL's own form (its documentation, "Data Types", and the binary forms of `src/backend/utils/adt`).

use std::{error::Error as StdError, fmt::Write as _};

use bytes::BytesMut;
use chrono::{Days, NaiveDate};
use tokio_postgres::{
    Row,
    types::{Format, FromSql, IsNull, Kind, ToSql, Type, to_sql_checked},
};

use crate::sql::Value;

/// 2000-01-01 in microseconds since 1970: where PostgreSQL's time begins.
const EPOCH_US: i64 = 946_684_800_000_000;

/// A parameter's type. Text and JSON have none: the server takes it from where they stand, so that they fit columns of
/// any type that is written as text.
pub fn type_of(value: &Value) -> Type {
    match value {
        Value::Boolean(_) => Type::BOOL,
        Value::Integer(_) => Type::INT8,
        Value::Real(_) => Type::FLOAT8,
        Value::Decimal(_) => Type::NUMERIC,
        Value::Bytes(_) => Type::BYTEA,
        Value::Timestamp(_) => Type::TIMESTAMPTZ,
        Value::Null | Value::Text(_) | Value::Json(_) => Type::UNKNOWN,
    }
}

#[derive(Debug)]
pub struct Param<'a>(pub &'a Value);

impl ToSql for Param<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match self.0 {
            Value::Null => return Ok(IsNull::Yes),
            Value::Boolean(value) => out.extend_from_slice(&[u8::from(*value)]),
            Value::Integer(value) => out.extend_from_slice(&value.to_be_bytes()),
            Value::Real(value) => out.extend_from_slice(&value.to_be_bytes()),
            Value::Timestamp(us) => {
                let us = us.checked_sub(EPOCH_US).ok_or("the timestamp is out of range")?;
                out.extend_from_slice(&us.to_be_bytes());
            }
            Value::Decimal(text) | Value::Text(text) | Value::Json(text) => out.extend_from_slice(text.as_bytes()),
            Value::Bytes(bytes) => out.extend_from_slice(bytes),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> Format {
        match self.0 {
            Value::Null | Value::Decimal(_) | Value::Text(_) | Value::Json(_) => Format::Text,
            _ => Format::Binary,
        }
    }

    to_sql_checked!();
}

/// A column as it came.
struct Raw<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// An error says which column is of a type that has no place here.
pub fn row(row: &Row) -> Result<Vec<Value>, String> {
    let columns = row.columns().iter().enumerate();
    columns
        .map(|(at, column)| {
            let raw: Option<Raw<'_>> = row.try_get(at).map_err(|e| e.to_string())?;
            let Some(Raw(raw)) = raw else { return Ok(Value::Null) };
            read(column.type_(), raw).map_err(|why| format!("column {:?} {why}", column.name()))
        })
        .collect()
}

fn read(of: &Type, raw: &[u8]) -> Result<Value, String> {
    let broken = || format!("has {} bytes, which is not how {of} comes", raw.len());
    let fixed = |size: usize| if raw.len() == size { Ok(raw) } else { Err(broken()) };
    let text = || std::str::from_utf8(raw).map(str::to_owned).map_err(|_| "is not UTF-8".to_owned());
    Ok(match *of {
        Type::BOOL => Value::Boolean(fixed(1)?[0] != 0),
        Type::INT2 | Type::INT4 | Type::INT8 => Value::Integer(integer(raw).ok_or_else(broken)?),
        Type::OID => Value::Integer(integer(raw).ok_or_else(broken)? & 0xffff_ffff),
        Type::FLOAT4 => Value::Real(f32::from_be_bytes(raw.try_into().map_err(|_| broken())?).into()),
        Type::FLOAT8 => Value::Real(f64::from_be_bytes(raw.try_into().map_err(|_| broken())?)),
        Type::NUMERIC => Value::Decimal(numeric(raw).ok_or_else(broken)?),
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::XML => Value::Text(text()?),
        Type::BYTEA => Value::Bytes(raw.to_vec()),
        Type::JSON => Value::Json(text()?),
        // A version stands in front.
        Type::JSONB => match raw.split_first() {
            Some((1, rest)) => Value::Json(std::str::from_utf8(rest).map_err(|_| "is not UTF-8")?.to_owned()),
            _ => return Err(broken()),
        },
        Type::TIMESTAMP | Type::TIMESTAMPTZ => {
            let us = i64::from_be_bytes(raw.try_into().map_err(|_| broken())?);
            let ends = us == i64::MAX || us == i64::MIN;
            let us = us.checked_add(EPOCH_US).filter(|_| !ends).ok_or("is infinite, which is no time here")?;
            Value::Timestamp(us)
        }
        Type::DATE => {
            let days = integer(raw).ok_or_else(broken)?;
            let start = NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default();
            let ahead = Days::new(days.unsigned_abs());
            let date = if days < 0 { start.checked_sub_days(ahead) } else { start.checked_add_days(ahead) };
            Value::Text(date.ok_or("is out of range")?.to_string())
        }
        Type::UUID => Value::Text(uuid::Uuid::from_slice(raw).map_err(|_| broken())?.to_string()),
        _ => match of.kind() {
            Kind::Domain(inner) => return read(inner, raw),
            Kind::Enum(_) => Value::Text(text()?),
            _ => return Err(format!("is of the type {of}, which has no place here: cast it to text")),
        },
    })
}

fn integer(raw: &[u8]) -> Option<i64> {
    Some(match raw.len() {
        2 => i16::from_be_bytes(raw.try_into().ok()?).into(),
        4 => i32::from_be_bytes(raw.try_into().ok()?).into(),
        8 => i64::from_be_bytes(raw.try_into().ok()?),
        _ => return None,
    })
}

/// `numeric_send`: the number of digits in base 10,000, the weight of the first, the sign, the scale, the digits.
fn numeric(raw: &[u8]) -> Option<String> {
    let short = |at: usize| Some(u16::from_be_bytes(raw.get(at * 2..at * 2 + 2)?.try_into().ok()?));
    let count = usize::from(short(0)?);
    let weight = i32::from(i16::from_be_bytes(short(1)?.to_be_bytes()));
    let sign = match short(2)? {
        0x0000 => "",
        0x4000 => "-",
        0xc000 => return Some("NaN".to_owned()),
        _ => return None,
    };
    let scale = usize::from(short(3)?);
    if raw.len() != 8 + count * 2 {
        return None;
    }
    let digit = |place: i32| -> Option<u16> {
        match usize::try_from(weight - place).ok().filter(|at| *at < count) {
            Some(at) => short(4 + at),
            None => Some(0),
        }
    };
    let mut out = String::from(sign);
    if weight < 0 {
        out.push('0');
    }
    for place in (0..=weight).rev() {
        let digit = digit(place)?;
        let written = if place == weight { write!(out, "{digit}") } else { write!(out, "{digit:04}") };
        written.ok()?;
    }
    if scale > 0 {
        let mut fraction = String::new();
        let groups = i32::try_from(scale.div_ceil(4)).ok()?;
        for place in 1..=groups {
            write!(fraction, "{:04}", digit(-place)?).ok()?;
        }
        out.push('.');
        out.push_str(fraction.get(..scale)?);
    }
    Some(out)
}
