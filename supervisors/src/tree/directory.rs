//! Which process supervises a class now. Read on a miss only: a hot actor is found in `Residents`.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use ractor::ActorRef;

use super::class_supervisor::StartActor;
use crate::address::Class;

#[derive(Default)]
pub struct Directory(RwLock<HashMap<Class, ActorRef<StartActor>>>);

impl Directory {
    pub fn get(&self, class: &Class) -> Option<ActorRef<StartActor>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(class).cloned()
    }

    pub fn set(&self, class: &Class, supervisor: ActorRef<StartActor>) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(class.clone(), supervisor);
    }
}
