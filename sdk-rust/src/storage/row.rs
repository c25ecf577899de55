//! Rows into Rust types, through serde: a row is a map of its columns, a tuple of its values, or,
//! with one column, the value itself.

use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::value::ANY_VALUE;
use super::{Rows, SqlError, Value};

pub(super) fn decode_all<T: DeserializeOwned>(rows: Rows) -> Result<Vec<T>, SqlError> {
    let numbered = rows.rows.into_iter().zip(1..);
    numbered.map(|(values, number)| decode(&rows.columns, values, number)).collect()
}

pub(super) fn decode_first<T: DeserializeOwned>(rows: Rows) -> Result<Option<T>, SqlError> {
    let first = rows.rows.into_iter().next();
    first.map(|values| decode(&rows.columns, values, 1)).transpose()
}

fn decode<T: DeserializeOwned>(
    columns: &[String],
    values: Vec<Value>,
    number: usize,
) -> Result<T, SqlError> {
    T::deserialize(Row { columns, values })
        .map_err(|Misfit(how)| SqlError::Mismatch(format!("row {number}: {how}")))
}

/// How a value or a row does not fit.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Misfit(String);

impl de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Misfit(message.to_string())
    }

    /// Serde's own text would show the value, and this one goes to a log.
    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match unexpected {
            Unexpected::Unit | Unexpected::Option => "NULL",
            Unexpected::Signed(_) | Unexpected::Unsigned(_) => "an integer",
            Unexpected::Float(_) => "a float",
            Unexpected::Str(_) => "text",
            Unexpected::Bytes(_) => "a blob",
            Unexpected::Map => "a whole row",
            _ => "something else",
        };
        Misfit(format!("expected {expected}, found {found}"))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        match unexpected {
            Unexpected::Signed(n) => Misfit(format!("expected {expected}, found the integer {n}")),
            _ => Misfit::invalid_type(unexpected, expected),
        }
    }

    fn missing_field(field: &'static str) -> Self {
        Misfit(format!("the query gives no column `{field}`"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Misfit(format!("the query gives column `{field}` twice: rename one with AS"))
    }
}

struct Row<'c> {
    columns: &'c [String],
    values: Vec<Value>,
}

impl<'c> Row<'c> {
    fn fields(self) -> impl Iterator<Item = Field<'c>> {
        let columns = self.columns.iter();
        columns.zip(self.values).map(|(column, value)| Field { column, value })
    }

    /// The one value, where one is asked for.
    fn only<E: fmt::Display>(self, expected: E) -> Result<Field<'c>, Misfit> {
        let count = self.columns.len();
        let mut fields = self.fields();
        match (fields.next(), count) {
            (Some(field), 1) => Ok(field),
            _ => Err(Misfit(format!(
                "{expected} takes one column, the query gives {count}: use a tuple or a struct"
            ))),
        }
    }

    fn is_one_blob(&self) -> bool {
        matches!(self.values[..], [Value::Blob(_)])
    }
}

/// Types that one column holds.
macro_rules! one_column {
    ($($method:ident($name:literal))+) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
            self.only($name)?.$method(visitor)
        }
    )+};
}

impl<'de> Deserializer<'de> for Row<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_map(MapDeserializer::new(
            self.fields().map(|field| (Column(field.column), field)),
        ))
    }

    one_column! {
        deserialize_bool("a bool")
        deserialize_i8("an i8") deserialize_i16("an i16") deserialize_i32("an i32")
        deserialize_i64("an i64") deserialize_i128("an i128")
        deserialize_u8("a u8") deserialize_u16("a u16") deserialize_u32("a u32")
        deserialize_u64("a u64") deserialize_u128("a u128")
        deserialize_f32("an f32") deserialize_f64("an f64")
        deserialize_char("a char") deserialize_str("text") deserialize_string("a String")
        deserialize_bytes("a blob") deserialize_byte_buf("a blob")
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.values[..] {
            [Value::Null] => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        if name == ANY_VALUE {
            return self.only("a Value")?.deserialize_any(visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        if self.is_one_blob() {
            return self.only("a blob")?.deserialize_seq(visitor);
        }
        visitor.visit_seq(SeqDeserializer::new(self.fields()))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let count = self.columns.len();
        if count == length {
            return visitor.visit_seq(SeqDeserializer::new(self.fields()));
        }
        if self.is_one_blob() {
            return self.only("a blob")?.deserialize_seq(visitor);
        }
        Err(Misfit(format!("a tuple of {length} for {count} columns")))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        length: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_tuple(length, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.only(name)?.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { unit_struct map struct identifier ignored_any }
}

/// A column's name, as the key of a map.
struct Column<'c>(&'c str);

impl<'c> IntoDeserializer<'_, Misfit> for Column<'c> {
    type Deserializer = StrDeserializer<'c, Misfit>;

    fn into_deserializer(self) -> Self::Deserializer {
        self.0.into_deserializer()
    }
}

/// One value of a row. What does not fit is reported with the column's name.
struct Field<'c> {
    column: &'c str,
    value: Value,
}

impl<'c> Field<'c> {
    fn named<T>(column: &'c str, result: Result<T, Misfit>) -> Result<T, Misfit> {
        result.map_err(|Misfit(how)| Misfit(format!("column `{column}`: {how}")))
    }
}

impl IntoDeserializer<'_, Misfit> for Field<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Field<'_> {
    type Error = Misfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        let visited = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Integer(n) => visitor.visit_i64(n),
            Value::Real(x) => visitor.visit_f64(x),
            Value::Text(text) => visitor.visit_string(text),
            Value::Blob(bytes) => visitor.visit_byte_buf(bytes),
        };
        Field::named(self.column, visited)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Integer(n @ (0 | 1)) => Field::named(self.column, visitor.visit_bool(n == 1)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Null => Field::named(self.column, visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        if name == ANY_VALUE {
            return self.deserialize_any(visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misfit> {
        match self.value {
            Value::Blob(bytes) => {
                let visited = visitor.visit_seq(SeqDeserializer::new(bytes.into_iter()));
                Field::named(self.column, visited)
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Misfit> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        self.deserialize_seq(visitor)
    }

    /// An enum is its variant's name, as text.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Misfit> {
        let visited = match self.value {
            Value::Text(text) => visitor.visit_enum(text.into_deserializer()),
            other => Err(Misfit(format!("expected {name} as text, found {}", other.kind()))),
        };
        Field::named(self.column, visited)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct map struct identifier ignored_any
    }
}
