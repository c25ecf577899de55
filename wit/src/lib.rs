//! Host bindings of the worlds `actor` and `front`, generated from the WIT beside this crate.
//!
//! Nothing else lives here: generated code is most of a wasmtime host's compile time, and it
//! changes only when the contract does.

/// World `actor`: what an actor's component imports and exports.
pub mod actor {
    wasmtime::component::bindgen!({
        path: ".",
        world: "wasmkeep:actor/actor",
        imports: {
            "wasmkeep:actor/storage.exec-durable": async | trappable,
            "wasmkeep:actor/storage.delete-self-durable": async | trappable,
            "wasmkeep:actor/actors.call": async | trappable,
            "wasmkeep:actor/calls.call-many": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        require_store_data_send: true,
        with: {
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
            "wasi:http": wasmtime_wasi_http::p2::bindings::http,
        },
    });
}

/// World `front`: what the front's component imports and exports. Its imports are the actor's.
pub mod front {
    wasmtime::component::bindgen!({
        path: ".",
        world: "wasmkeep:actor/front",
        exports: { default: async },
        require_store_data_send: true,
        with: {
            "wasmkeep:actor/actors": crate::actor::wasmkeep::actor::actors,
            "wasmkeep:actor/calls": crate::actor::wasmkeep::actor::calls,
            "wasmkeep:actor/env": crate::actor::wasmkeep::actor::env,
            "wasi:io": wasmtime_wasi::p2::bindings::io,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
            "wasi:http": wasmtime_wasi_http::p2::bindings::http,
        },
    });
}
