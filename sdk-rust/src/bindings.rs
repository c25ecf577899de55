//! The bindings `wit-bindgen` makes of the contract (`wit/*.wit`), as they come.
//!
//! For what the rest of this crate does not cover, such as trailers. They follow the generator: a
//! minor version of this crate may change their shape.

#![allow(missing_docs)]

wit_bindgen::generate!({
    path: "../wit",
    world: "wasmkeep:actor/actor",
    generate_all,
    default_bindings_module: "wasmkeep_sdk::bindings",
    pub_export_macro: true,
    export_macro_name: "export_actor",
    with: {
        "wasmkeep:actor/actors@0.2.0/address": crate::actors::Address,
        "wasmkeep:actor/storage@0.2.0/row-set": crate::storage::Rows,
        "wasmkeep:actor/storage@0.2.0/value": crate::storage::Value,
        "wasmkeep:actor/websockets@0.2.0/message": crate::websockets::Message,
    },
});
