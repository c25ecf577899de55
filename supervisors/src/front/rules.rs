//! How many requests the front may serve at once, and how many of its calls may wait. Pure.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use thiserror::Error;

use crate::address::Address;
use crate::limits::{FRONT_CALLS_PER_ACTOR_SHARE, FRONT_INSTANCES_SHARE};

/// How actors and the front share the node's instances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Actors in memory at once.
    pub residents: usize,
    /// Requests that the front serves at once.
    pub slots: usize,
}

#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum SharesError {
    #[error(
        "--max-front-requests {asked} leaves actors none of the {instances} instances; it must be \
         less than --max-instances"
    )]
    NoneForActors { asked: usize, instances: usize },
    #[error(
        "--max-front-requests {asked} is more than the {instances} instances there are; lower it, \
         or raise --max-instances"
    )]
    TooMany { asked: usize, instances: usize },
    #[error("--max-instances must be at least 2 beside a front: one for it, one for actors")]
    TooFew,
}

/// Shares `instances` out: what was asked for, or else a tenth beside actors and all without.
pub fn share(
    instances: usize,
    asked: Option<usize>,
    has_actors: bool,
) -> Result<Shares, SharesError> {
    if !has_actors {
        let slots = asked.unwrap_or(instances);
        if slots > instances {
            return Err(SharesError::TooMany { asked: slots, instances });
        }
        return Ok(Shares { residents: instances - slots, slots });
    }
    if instances < 2 {
        return Err(SharesError::TooFew);
    }
    let slots = asked.unwrap_or((instances / FRONT_INSTANCES_SHARE).max(1));
    if slots >= instances {
        return Err(SharesError::NoneForActors { asked: slots, instances });
    }
    Ok(Shares { residents: instances - slots, slots })
}

/// Why one more call may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Busy {
    #[error("front busy: {0} calls of the front wait for this actor already; nothing ran")]
    Actor(usize),
    #[error("front busy: too many front calls waiting on this node")]
    Node,
}

/// The calls of a node's front that wait now.
#[derive(Debug)]
pub struct Waiting {
    on_node: usize,
    on_actor: HashMap<Address, usize>,
    on_node_max: usize,
    on_actor_max: usize,
}

impl Waiting {
    /// As many as there are slots, at most a quarter of them on one actor.
    pub fn within(slots: usize) -> Self {
        let on_actor_max = (slots / FRONT_CALLS_PER_ACTOR_SHARE).max(1);
        Self { on_node: 0, on_actor: HashMap::new(), on_node_max: slots, on_actor_max }
    }

    /// Counts one more call to `callee`, unless it is one too many.
    pub fn begin(&mut self, callee: &Address) -> Result<(), Busy> {
        let waiting = self.on_actor.get(callee).copied().unwrap_or(0);
        if waiting >= self.on_actor_max {
            return Err(Busy::Actor(waiting));
        }
        if self.on_node >= self.on_node_max {
            return Err(Busy::Node);
        }
        self.on_node += 1;
        *self.on_actor.entry(callee.clone()).or_default() += 1;
        Ok(())
    }

    /// One call to `callee` that was counted waits no more.
    pub fn end(&mut self, callee: &Address) {
        let Entry::Occupied(mut waiting) = self.on_actor.entry(callee.clone()) else { return };
        self.on_node -= 1;
        *waiting.get_mut() -= 1;
        if *waiting.get() == 0 {
            waiting.remove();
        }
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.on_node == 0 && self.on_actor.is_empty()
    }
}

/// Whether the answer to a request has a body at all.
pub fn has_body(method: &str, status: u16) -> bool {
    method != "HEAD" && !matches!(status, 204 | 205 | 304)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{ActorName, Class, Tenant};

    #[test]
    fn actors_get_what_the_front_leaves() {
        let shares = |residents, slots| Ok(Shares { residents, slots });
        let rows = [
            (1000, None, true, shares(900, 100)),
            (1000, None, false, shares(0, 1000)),
            (1000, Some(7), true, shares(993, 7)),
            (1000, Some(7), false, shares(993, 7)),
            (9, None, true, shares(8, 1)),
            (2, None, true, shares(1, 1)),
            (1, None, false, shares(0, 1)),
            (1, None, true, Err(SharesError::TooFew)),
            (4, Some(4), true, Err(SharesError::NoneForActors { asked: 4, instances: 4 })),
            (4, Some(4), false, shares(0, 4)),
            (4, Some(5), false, Err(SharesError::TooMany { asked: 5, instances: 4 })),
        ];
        for (instances, asked, has_actors, expected) in rows {
            let shared = share(instances, asked, has_actors);
            assert_eq!(shared, expected, "{instances} {asked:?} {has_actors}");
        }
    }

    fn actor(name: &str) -> Address {
        Address {
            tenant: Tenant::default_tenant(),
            class: Class::parse("a").expect("a legal class"),
            name: ActorName::parse(name).expect("a legal name"),
        }
    }

    #[test]
    fn at_most_a_quarter_of_the_slots_waits_on_one_actor() {
        let mut waiting = Waiting::within(8);
        assert_eq!(waiting.begin(&actor("x")), Ok(()));
        assert_eq!(waiting.begin(&actor("x")), Ok(()));
        assert_eq!(waiting.begin(&actor("x")), Err(Busy::Actor(2)));
        assert_eq!(waiting.begin(&actor("y")), Ok(()));
        waiting.end(&actor("x"));
        assert_eq!(waiting.begin(&actor("x")), Ok(()));
        for name in ["x", "x", "y"] {
            waiting.end(&actor(name));
        }
        assert!(waiting.is_empty(), "an actor that nothing waits on is forgotten");
    }

    #[test]
    fn at_most_as_many_calls_wait_as_there_are_slots() {
        let mut waiting = Waiting::within(3);
        for name in ["x", "y", "z"] {
            assert_eq!(waiting.begin(&actor(name)), Ok(()));
        }
        assert_eq!(waiting.begin(&actor("w")), Err(Busy::Node));
        waiting.end(&actor("y"));
        assert_eq!(waiting.begin(&actor("w")), Ok(()));
        assert_eq!(waiting.begin(&actor("x")), Err(Busy::Actor(1)), "of few slots, one");
    }

    #[test]
    fn some_answers_have_no_body() {
        assert!(has_body("GET", 200) && has_body("POST", 500));
        assert!(!has_body("HEAD", 200));
        for status in [204, 205, 304] {
            assert!(!has_body("GET", status), "{status}");
        }
    }
}
