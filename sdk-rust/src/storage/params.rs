use super::Value;

/// The values for the `?` of a statement.
///
/// `()` for none, a tuple of up to 12, an array, [`params!`](crate::params), or `Vec<Value>` for a
/// number known only when it runs.
///
/// ```
/// # use wasmkeep_sdk::{params, storage::{Params, Value}};
/// let one = ("milk",).into_values();
/// let many = params![1, "milk", None::<f64>].into_values();
/// assert_eq!(one, [Value::from("milk")]);
/// assert_eq!(many, [Value::from(1), Value::from("milk"), Value::Null]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of SQL parameters",
    note = "use `()` for none, `(value,)` for one, a tuple, or `params![…]`; each value must be `Into<Value>`"
)]
pub trait Params {
    /// The values, in order.
    fn into_values(self) -> Vec<Value>;
}

impl Params for () {
    fn into_values(self) -> Vec<Value> {
        Vec::new()
    }
}

impl Params for Vec<Value> {
    fn into_values(self) -> Vec<Value> {
        self
    }
}

impl Params for &[Value] {
    fn into_values(self) -> Vec<Value> {
        self.to_vec()
    }
}

impl<T: Into<Value>, const N: usize> Params for [T; N] {
    fn into_values(self) -> Vec<Value> {
        self.map(Into::into).into()
    }
}

macro_rules! tuple_params {
    ($($name:ident)+) => {
        impl<$($name: Into<Value>),+> Params for ($($name,)+) {
            fn into_values(self) -> Vec<Value> {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                vec![$($name.into()),+]
            }
        }
    };
}

tuple_params!(A);
tuple_params!(A B);
tuple_params!(A B C);
tuple_params!(A B C D);
tuple_params!(A B C D E);
tuple_params!(A B C D E F);
tuple_params!(A B C D E F G);
tuple_params!(A B C D E F G H);
tuple_params!(A B C D E F G H I);
tuple_params!(A B C D E F G H I J);
tuple_params!(A B C D E F G H I J K);
tuple_params!(A B C D E F G H I J K L);

/// A list of SQL parameters of any length: `params![1, "x", None::<i64>]`.
///
/// ```no_run
/// # use wasmkeep_sdk::{Result, params, storage};
/// # fn example(id: i64) -> Result<()> {
/// storage::exec("DELETE FROM items WHERE id = ?", params![id])?;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! params {
    ($($value:expr),* $(,)?) => {
        <[$crate::storage::Value; _]>::from([$($crate::storage::Value::from($value)),*])
    };
}
