//! The one place that builds a wasmtime engine, so that every cached artifact fits every engine.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig,
    WasmBacktraceDetails,
};

/// How often running guests are looked at. An overrun is noticed within one tick.
const EPOCH_TICK: Duration = Duration::from_millis(5);
/// Guest frames; what is left of the fiber's stack is the host calls'.
const WASM_STACK_BYTES: usize = 1024 * 1024;
const FIBER_STACK_BYTES: usize = 2 * 1024 * 1024;
/// Core instances, memories and tables one component may hold: a guest from any of today's
/// toolchains has one memory or two, and a handful of the others.
const CORE_INSTANCES_PER_COMPONENT: u32 = 16;
const MEMORIES_PER_COMPONENT: u32 = 2;
const TABLES_PER_COMPONENT: u32 = 8;
/// Memory a slot keeps for its next instance instead of giving it back to the kernel.
const SLOT_RESIDENT_BYTES: usize = 256 * 1024;
const TABLE_RESIDENT_BYTES: usize = 16 * 1024;
const WARM_SLOTS_MAX: u32 = 100;
/// Slots beyond the residents, for instances on their way out.
const SPARE_SLOTS: u32 = 64;
/// Above this many slots of two memories of 4 GiB, 47 bits of address space run out.
const RESERVED_SLOTS_MAX: u32 = 15_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    pub instances_max: usize,
    pub memory_bytes_max: usize,
}

#[derive(Debug, Error)]
#[error("the WebAssembly engine did not start ({0}); lower --max-instances or --memory-mb")]
pub struct EngineError(wasmtime::Error);

/// An engine, and the thread that advances its epoch.
pub struct GuestEngine {
    pub engine: Engine,
    stop: Option<mpsc::Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl GuestEngine {
    pub fn start(config: &EngineConfig) -> Result<Self, EngineError> {
        let engine = Engine::new(&wasmtime_config(config)).map_err(EngineError)?;
        let ticking = engine.clone();
        let (stop, stopped) = mpsc::channel();
        let ticker = std::thread::Builder::new()
            .name("epoch".into())
            .spawn(move || {
                while stopped.recv_timeout(EPOCH_TICK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    ticking.increment_epoch();
                }
            })
            .map_err(|error| EngineError(error.into()))?;
        Ok(Self { engine, stop: Some(stop), ticker: Some(ticker) })
    }
}

impl Drop for GuestEngine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(ticker) = self.ticker.take() {
            let _ = ticker.join();
        }
    }
}

fn wasmtime_config(config: &EngineConfig) -> Config {
    let slots = u32::try_from(config.instances_max).unwrap_or(u32::MAX / 32) + SPARE_SLOTS;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        // Only counted: a component of the small TypeScript engine has eight, and nothing is set aside.
        .total_core_instances(slots * CORE_INSTANCES_PER_COMPONENT)
        .total_memories(slots * MEMORIES_PER_COMPONENT)
        .total_tables(slots * 4)
        // A store keeps its fiber's stack between events.
        .total_stacks(slots)
        .max_core_instances_per_component(CORE_INSTANCES_PER_COMPONENT)
        .max_memories_per_component(MEMORIES_PER_COMPONENT)
        .max_tables_per_component(TABLES_PER_COMPONENT)
        .max_memory_size(config.memory_bytes_max)
        .linear_memory_keep_resident(SLOT_RESIDENT_BYTES)
        .table_keep_resident(TABLE_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto)
        .max_unused_warm_slots(WARM_SLOTS_MAX);

    let mut wasmtime = Config::new();
    wasmtime
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(true)
        .memory_init_cow(true)
        .concurrency_support(false)
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .max_wasm_stack(WASM_STACK_BYTES)
        .async_stack_size(FIBER_STACK_BYTES);
    if slots > RESERVED_SLOTS_MAX {
        wasmtime.memory_reservation(config.memory_bytes_max as u64);
    }
    wasmtime
}
