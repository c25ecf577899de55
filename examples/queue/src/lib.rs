//! A queue for each name. All of it is in the SDK.

wasmkeep_sdk::actor!(wasmkeep_sdk::queue::Queue);
