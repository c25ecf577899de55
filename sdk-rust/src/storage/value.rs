use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// One SQL value, as SQLite stores it.
///
/// Made from integers (also `bool`, as 0 and 1), floats, text, bytes, and from an `Option` of any
/// of them, where `None` is `NULL`:
///
/// ```
/// # use wasmkeep_sdk::storage::Value;
/// assert_eq!(Value::from(true), Value::Integer(1));
/// assert_eq!(Value::from("milk"), Value::Text("milk".to_owned()));
/// assert_eq!(Value::from(None::<i64>), Value::Null);
/// ```
///
/// A `u64` may not fit SQLite's 64-bit signed integers: convert it first. SQLite keeps a float
/// that is not a number as `NULL`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `NULL`
    #[default]
    Null,
    /// A 64-bit signed integer.
    Integer(i64),
    /// A 64-bit float.
    Real(f64),
    /// Text, in UTF-8.
    Text(String),
    /// Bytes.
    Blob(Vec<u8>),
}

impl Value {
    /// What it is, for a message that must not show the data.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::Null => "NULL",
            Value::Integer(_) => "an integer",
            Value::Real(_) => "a float",
            Value::Text(_) => "text",
            Value::Blob(_) => "a blob",
        }
    }
}

macro_rules! value_from {
    ($($source:ty => |$value:ident| $made:expr;)+) => {$(
        impl From<$source> for Value {
            fn from($value: $source) -> Self {
                $made
            }
        }
    )+};
}

value_from! {
    i8 => |n| Value::Integer(n.into());
    i16 => |n| Value::Integer(n.into());
    i32 => |n| Value::Integer(n.into());
    i64 => |n| Value::Integer(n);
    u8 => |n| Value::Integer(n.into());
    u16 => |n| Value::Integer(n.into());
    u32 => |n| Value::Integer(n.into());
    bool => |b| Value::Integer(b.into());
    f32 => |x| Value::Real(x.into());
    f64 => |x| Value::Real(x);
    &str => |text| Value::Text(text.to_owned());
    String => |text| Value::Text(text);
    &String => |text| Value::Text(text.clone());
    Cow<'_, str> => |text| Value::Text(text.into_owned());
    &[u8] => |bytes| Value::Blob(bytes.to_owned());
    Vec<u8> => |bytes| Value::Blob(bytes);
    &Vec<u8> => |bytes| Value::Blob(bytes.clone());
    &Value => |value| value.clone();
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(bytes: [u8; N]) -> Self {
        Value::Blob(bytes.to_vec())
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(bytes: &[u8; N]) -> Self {
        Value::Blob(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// What tells [`row`](super::row) that any kind of value is wanted.
pub(super) const ANY_VALUE: &str = "wasmkeep_sdk::storage::Value";

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(ANY_VALUE, ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an SQL value")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<Value, D::Error> {
        inner.deserialize_any(self)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        let value = i64::try_from(value);
        value.map(Value::Integer).map_err(|_| E::custom("an integer over 2^63 - 1"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_bytes<E>(self, value: &[u8]) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_byte_buf<E>(self, value: Vec<u8>) -> Result<Value, E> {
        Ok(Value::Blob(value))
    }
}
