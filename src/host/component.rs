//! Compiled components: checked against the contract, compiled once, kept on disk.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use thiserror::Error;
use wasmkeep_supervisors::ports::{
    Clock, EventScope, FrontGuest, Guest, GuestFault, GuestFuture, Instance,
};
use wasmkeep_wit::actor::ActorPre;
use wasmkeep_wit::actor::wasmkeep::actor as wit;
use wasmkeep_wit::front::FrontPre;
use wasmtime::Engine;
use wasmtime::component::{Component, HasSelf, Linker};

use super::front::LoadedFront;
use super::instance::GuestInstance;
use super::outbound::Outbound;
use super::state::HostState;

const ACTOR: &str = "actor";
const FRONT: &str = "front";

#[derive(Debug, Error)]
pub enum ComponentError {
    #[error("{path} is not a WebAssembly component: {cause}")]
    NotAComponent { path: PathBuf, cause: String },
    #[error("{path} does not fit the world wasmkeep:actor/{world}@0.2.0: {cause}")]
    WrongWorld { path: PathBuf, world: &'static str, cause: String },
    #[error("the cache of compiled components cannot be used: {path}: {cause}")]
    Cache { path: PathBuf, cause: io::Error },
}

/// Hexadecimal SHA-256.
pub fn component_hash(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Loads components, through a folder of compiled ones that only this server writes.
pub struct Components {
    engine: Engine,
    linker: Linker<HostState>,
    front_linker: Linker<HostState>,
    cache: PathBuf,
    instances: InstanceConfig,
}

/// What each instance is given, and may use.
#[derive(Clone)]
pub struct InstanceConfig {
    pub outbound: Outbound,
    pub cpu_budget: Duration,
    pub memory_bytes_max: usize,
    /// What guests see as the time of day; the machine's, when there is none.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Components {
    pub fn new(
        engine: &Engine,
        cache: PathBuf,
        instances: InstanceConfig,
    ) -> Result<Self, ComponentError> {
        fs::create_dir_all(&cache)
            .map_err(|cause| ComponentError::Cache { path: cache.clone(), cause })?;
        let itself = |world| move |error| wrong_world(Path::new("the host itself"), world, &error);
        let front_linker = front_linker(engine).map_err(itself(FRONT))?;
        let linker = actor_linker(&front_linker).map_err(itself(ACTOR))?;
        Ok(Self { engine: engine.clone(), linker, front_linker, cache, instances })
    }

    /// Loads a component; `origin` names it in errors.
    pub fn load(&self, origin: &Path, bytes: &[u8]) -> Result<Arc<dyn Guest>, ComponentError> {
        let (component, hash) = self.component(origin, bytes)?;
        let wrong = |error| wrong_world(origin, ACTOR, &error);
        let pre = self.linker.instantiate_pre(&component).map_err(wrong)?;
        Ok(Arc::new(LoadedComponent {
            pre: ActorPre::new(pre).map_err(wrong)?,
            hash,
            instances: self.instances.clone(),
        }))
    }

    /// Loads the front's component, which has a CPU budget of its own.
    pub fn load_front(
        &self,
        origin: &Path,
        bytes: &[u8],
        cpu_budget: Duration,
    ) -> Result<Arc<dyn FrontGuest>, ComponentError> {
        let (component, _) = self.component(origin, bytes)?;
        let wrong = |error| wrong_world(origin, FRONT, &error);
        let pre = self.front_linker.instantiate_pre(&component).map_err(wrong)?;
        let pre = FrontPre::new(pre).map_err(wrong)?;
        let instances = InstanceConfig { cpu_budget, ..self.instances.clone() };
        Ok(Arc::new(LoadedFront { pre, instances }))
    }

    /// A component, compiled now or earlier, and its hash.
    fn component(
        &self,
        origin: &Path,
        bytes: &[u8],
    ) -> Result<(Component, String), ComponentError> {
        let hash = component_hash(bytes);
        let component = match self.cached(&hash) {
            Some(component) => component,
            None => self.compile(origin, bytes, &hash)?,
        };
        Ok((component, hash))
    }

    fn cached(&self, hash: &str) -> Option<Component> {
        let path = self.cache_path(hash);
        if !path.exists() {
            return None;
        }
        // SAFETY: the folder is this server's own, readable and writable by its user alone; the
        // file was written by `compile` below, whole, and its name holds the engine's hash.
        match unsafe { Component::deserialize_file(&self.engine, &path) } {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "compiled component ignored");
                None
            }
        }
    }

    fn compile(
        &self,
        origin: &Path,
        bytes: &[u8],
        hash: &str,
    ) -> Result<Component, ComponentError> {
        tracing::info!(component = %origin.display(), bytes = bytes.len(), "compiling");
        let component = Component::from_binary(&self.engine, bytes).map_err(|error| {
            ComponentError::NotAComponent { path: origin.to_owned(), cause: format!("{error:#}") }
        })?;
        // Not being able to cache costs the next start some time, nothing else.
        match component.serialize() {
            Ok(compiled) => {
                let path = self.cache_path(hash);
                if let Err(error) = write_whole(&path, &compiled) {
                    tracing::warn!(path = %path.display(), %error, "compiled component not kept");
                }
            }
            Err(error) => tracing::warn!(%error, "compiled component not kept"),
        }
        Ok(component)
    }

    fn cache_path(&self, hash: &str) -> PathBuf {
        let mut engine = std::hash::DefaultHasher::new();
        self.engine.precompile_compatibility_hash().hash(&mut engine);
        self.cache.join(format!("{hash}-{:016x}.cwasm", engine.finish()))
    }
}

/// Writes beside the target and renames, so that no half-written file is ever found.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)
}

fn wrong_world(path: &Path, world: &'static str, error: &wasmtime::Error) -> ComponentError {
    ComponentError::WrongWorld { path: path.to_owned(), world, cause: format!("{error:#}") }
}

/// What both worlds import.
fn front_linker(engine: &Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(&mut linker)?;
    super::http::link_error_codes(&mut linker)?;
    wit::actors::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    wit::calls::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    wit::env::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// The actors' world imports more.
fn actor_linker(front: &Linker<HostState>) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = front.clone();
    wit::storage::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    wit::alarms::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    wit::websockets::add_to_linker::<_, HasSelf<HostState>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// `ports::Guest` over a component that is compiled and linked.
struct LoadedComponent {
    pre: ActorPre<HostState>,
    hash: String,
    instances: InstanceConfig,
}

impl Guest for LoadedComponent {
    fn component(&self) -> &str {
        &self.hash
    }

    fn instantiate(&self, scope: Arc<dyn EventScope>) -> GuestFuture<'_, Box<dyn Instance>> {
        Box::pin(async move {
            let state = HostState::of_actor(scope, &self.instances);
            let instance = GuestInstance::new(&self.pre, state).await.map_err(|error| {
                tracing::error!(error = format!("{error:#}"), "no instance could be made");
                GuestFault::NotInstantiated(format!("{error:#}"))
            })?;
            Ok(Box::new(instance) as Box<dyn Instance>)
        })
    }
}
