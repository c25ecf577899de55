use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Params, Rows, SqlError, Value};
use crate::params;

fn rows(columns: &[&str], values: Vec<Vec<Value>>) -> Rows {
    Rows { columns: columns.iter().map(|&column| column.to_owned()).collect(), rows: values }
}

fn one<T: DeserializeOwned>(columns: &[&str], values: Vec<Value>) -> Result<T, String> {
    match rows(columns, vec![values]).decode() {
        Ok(mut decoded) => Ok(decoded.remove(0)),
        Err(SqlError::Mismatch(how)) => Err(how),
        Err(other) => panic!("{other:?}"),
    }
}

fn value<T: DeserializeOwned>(value: impl Into<Value>) -> Result<T, String> {
    one(&["v"], vec![value.into()])
}

#[derive(Deserialize, Debug, PartialEq)]
struct Item {
    id: i64,
    title: String,
    price: Option<f64>,
}

#[test]
fn a_struct_takes_columns_by_name_in_any_order() {
    let decoded =
        one(&["price", "unused", "title", "id"], params![Value::Null, 1, "milk", 7].into_values());
    let milk = Item { id: 7, title: "milk".to_owned(), price: None };
    assert_eq!(decoded, Ok(milk));
}

#[test]
fn a_tuple_takes_columns_in_order() {
    let decoded = one(&["a", "b", "c"], params![1, "x", 2.5].into_values());
    assert_eq!(decoded, Ok((1u8, "x".to_owned(), 2.5f32)));
    let decoded = one::<(i64,)>(&["a"], params![1].into_values());
    assert_eq!(decoded, Ok((1,)));
}

#[test]
fn one_column_is_the_value_alone() {
    assert_eq!(value::<i64>(-3), Ok(-3));
    assert_eq!(value::<bool>(true), Ok(true));
    assert_eq!(value::<String>("x"), Ok("x".to_owned()));
    assert_eq!(value::<Vec<u8>>(b"\x00\xff"), Ok(vec![0, 255]));
    assert_eq!(value::<[u8; 2]>(b"\x00\xff"), Ok([0, 255]));
    assert_eq!(value::<Option<u32>>(Value::Null), Ok(None));
    assert_eq!(value::<Option<u32>>(5), Ok(Some(5)));
    assert_eq!(value::<Value>(b"\x01"), Ok(Value::Blob(vec![1])));
    assert_eq!(value::<Value>(Value::Null), Ok(Value::Null));
}

#[test]
fn integers_read_as_floats_and_not_the_other_way() {
    assert_eq!(value::<f64>(3), Ok(3.0));
    assert_eq!(value::<(f32,)>(3), Ok((3.0,)));
    let how = value::<i64>(3.0).unwrap_err();
    assert_eq!(how, "row 1: column `v`: expected i64, found a float");
}

#[test]
fn newtypes_and_enums_are_what_they_hold() {
    #[derive(Deserialize, Debug, PartialEq)]
    struct Id(i64);
    #[derive(Deserialize, Debug, PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum State {
        Open,
        Done,
    }
    assert_eq!(value(7), Ok(Id(7)));
    assert_eq!(value("done"), Ok(State::Done));
    let pair = one(&["id", "s"], params![7, "open"].into_values());
    assert_eq!(pair, Ok((Id(7), State::Open)));
    let how = value::<State>("lost").unwrap_err();
    assert!(how.contains("column `v`: unknown variant `lost`"), "{how}");
}

#[test]
fn a_row_is_also_a_map_or_a_list() {
    let values = params![1, "x"].into_values();
    let map: BTreeMap<String, Value> = one(&["a", "b"], values.clone()).unwrap();
    assert_eq!(map["b"], Value::from("x"));
    assert_eq!(one(&["a", "b"], values.clone()), Ok(values.clone()));
    let json: serde_json::Value = one(&["a", "b"], values).unwrap();
    assert_eq!(json, crate::json!({ "a": 1, "b": "x" }));
}

#[test]
fn a_misfit_names_row_and_column_and_keeps_the_data_out() {
    let values = vec![params![1, "milk"].into_values(), params![2, Value::Null].into_values()];
    let error = rows(&["id", "title"], values).decode::<(i64, String)>().unwrap_err();
    assert_eq!(error.to_string(), "row 2: column `title`: expected a string, found NULL");
    let how = value::<i64>("a secret").unwrap_err();
    assert_eq!(how, "row 1: column `v`: expected i64, found text");
    let how = value::<u8>(300).unwrap_err();
    assert_eq!(how, "row 1: column `v`: expected u8, found the integer 300");
    let how = value::<bool>(2).unwrap_err();
    assert_eq!(how, "row 1: column `v`: expected a boolean, found an integer");
}

#[test]
fn a_misfit_of_shape_says_which_shapes() {
    let two = || params![1, 2].into_values();
    let how = one::<i64>(&["a", "b"], two()).unwrap_err();
    assert_eq!(how, "row 1: an i64 takes one column, the query gives 2: use a tuple or a struct");
    let how = one::<(i64, i64, i64)>(&["a", "b"], two()).unwrap_err();
    assert_eq!(how, "row 1: a tuple of 3 for 2 columns");
    let how = one::<Item>(&["id", "title"], params![1, "x"].into_values());
    assert_eq!(how.unwrap().price, None);
    let how = one::<Item>(&["id", "price"], two()).unwrap_err();
    assert_eq!(how, "row 1: the query gives no column `title`");
    let how = one::<Item>(&["id", "id"], two()).unwrap_err();
    assert_eq!(how, "row 1: the query gives column `id` twice: rename one with AS");
}

#[test]
fn the_first_row_is_optional() {
    let none = super::row::decode_first::<i64>(rows(&["n"], Vec::new()));
    assert_eq!(none, Ok(None));
    let two = rows(&["n"], vec![params![1].into_values(), params![2].into_values()]);
    assert_eq!(super::row::decode_first::<i64>(two), Ok(Some(1)));
}

#[test]
fn parameters_come_in_many_shapes() {
    let expected = vec![Value::Integer(1), Value::from("x"), Value::Null];
    assert_eq!((1, "x", None::<f64>).into_values(), expected);
    assert_eq!(params![1u32, "x".to_owned(), None::<i64>].into_values(), expected);
    assert_eq!(expected.as_slice().into_values(), expected);
    assert_eq!([1, 2].into_values(), [Value::Integer(1), Value::Integer(2)]);
    assert!(().into_values().is_empty());
    assert!(params![].into_values().is_empty());
}
