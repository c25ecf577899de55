//! The bindings `wit-bindgen` makes of the contract (`wit/*.wit`), as they come.
//!
//! For what the rest of this crate does not cover, such as trailers. They follow the generator: a
//! minor version of this crate may change their shape.

#![allow(missing_docs)]

wit_bindgen::generate!({
    path: "wit",
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

/// The world of a front. Its imports are an actor's, and so is the code that exports its handler:
/// what counts here is the description that a front's component is made by.
pub(crate) mod front {
    wit_bindgen::generate!({
        path: "wit",
        world: "wasmkeep:actor/front",
        with: {
            "wasmkeep:actor/actors@0.2.0": crate::bindings::wasmkeep::actor::actors,
            "wasmkeep:actor/calls@0.2.0": crate::bindings::wasmkeep::actor::calls,
            "wasmkeep:actor/env@0.2.0": crate::bindings::wasmkeep::actor::env,
            "wasi:clocks/monotonic-clock@0.2.0": crate::bindings::wasi::clocks::monotonic_clock,
            "wasi:http/outgoing-handler@0.2.0": crate::bindings::wasi::http::outgoing_handler,
            "wasi:http/types@0.2.0": crate::bindings::wasi::http::types,
            "wasi:io/error@0.2.0": crate::bindings::wasi::io::error,
            "wasi:io/poll@0.2.0": crate::bindings::wasi::io::poll,
            "wasi:io/streams@0.2.0": crate::bindings::wasi::io::streams,
        },
    });
}
