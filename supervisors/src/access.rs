//! Who may reach and create the actors of a class. Pure.

use std::fmt;
use std::str::FromStr;

use crate::address::ActorName;
use crate::event::{Caller, Reason, Refusal};

/// What requests from outside may do. Calls of actors and of the front reach and create everywhere,
/// and alarms always reach their actor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Access {
    /// Any request creates its actor.
    #[default]
    Open,
    /// Only actors that exist are reached; requests create those named here and no others.
    Existing(Vec<ActorName>),
    /// Nothing from outside gets in.
    Internal,
}

/// How a mode is written: `open`, `existing`, `existing:main,room%201`, `internal`.
pub const FORM: &str = "open, existing, existing:NAME,… or internal";

impl Access {
    /// Whether an event of `caller` may go to the actor `name`; asks whether that exists only
    /// where it matters.
    pub fn admit(
        &self,
        caller: &Caller,
        name: &ActorName,
        exists: impl FnOnce() -> bool,
    ) -> Result<(), Refusal> {
        if !matches!(caller, Caller::Outside) {
            return Ok(());
        }
        match self {
            Access::Open => Ok(()),
            Access::Existing(names) if names.contains(name) || exists() => Ok(()),
            Access::Existing(_) => Err(Refusal::not_run(Reason::NoSuchActor)),
            Access::Internal => Err(Refusal::not_run(Reason::Forbidden)),
        }
    }
}

impl FromStr for Access {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "open" => Ok(Access::Open),
            None if text == "existing" => Ok(Access::Existing(Vec::new())),
            None if text == "internal" => Ok(Access::Internal),
            Some(("existing", names)) => names
                .split(',')
                .map(|name| ActorName::from_url_segment(name).map_err(|error| error.to_string()))
                .collect::<Result<_, _>>()
                .map(Access::Existing),
            _ => Err(format!("the access mode {text:?} is none of {FORM}")),
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Access::Open => f.write_str("open"),
            Access::Internal => f.write_str("internal"),
            Access::Existing(names) => {
                f.write_str("existing")?;
                for (at, name) in names.iter().enumerate() {
                    let between = if at == 0 { ':' } else { ',' };
                    write!(f, "{between}{}", name.percent_encoded().replace(',', "%2C"))?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::address::{Address, Class, Tenant};
    use crate::event::CallChain;

    fn name(text: &str) -> ActorName {
        ActorName::parse(text).expect("a legal name")
    }

    #[test]
    fn who_gets_in() {
        let actor = Address {
            tenant: Tenant::default_tenant(),
            class: Class::parse("a").expect("a legal class"),
            name: name("a"),
        };
        let inside = Caller::Actor(CallChain::below(&Caller::Outside, &actor));
        let front = Caller::Front(Address::of_the_front(Tenant::default_tenant()));
        let existing: Access = "existing:main,room%201".parse().expect("a mode");
        let rows = [
            (&Access::Open, &Caller::Outside, "new", false, None),
            (&existing, &Caller::Outside, "new", false, Some(Reason::NoSuchActor)),
            (&existing, &Caller::Outside, "new", true, None),
            (&existing, &Caller::Outside, "main", false, None),
            (&existing, &Caller::Outside, "room 1", false, None),
            (&existing, &Caller::Outside, "room%201", false, Some(Reason::NoSuchActor)),
            (&existing, &inside, "new", false, None),
            (&Access::Internal, &Caller::Outside, "new", true, Some(Reason::Forbidden)),
            (&Access::Internal, &inside, "new", false, None),
            (&existing, &front, "new", false, None),
            (&Access::Internal, &front, "new", false, None),
        ];
        for (access, caller, at, exists, refused) in rows {
            let answer = access.admit(caller, &name(at), || exists);
            assert_eq!(answer.err().map(|refusal| refusal.reason), refused, "{access} {at}");
        }
    }

    #[test]
    fn modes_are_read_as_they_are_written() {
        for text in ["open", "existing", "existing:main", "existing:a%2Cb,c", "internal"] {
            let mode: Access = text.parse().expect("a mode");
            assert_eq!(mode.to_string(), text);
        }
        for wrong in ["", "Open", "closed", "existing:", "existing:a,,b", "internal:a", "open:"] {
            assert!(wrong.parse::<Access>().is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_mode_or_refused(
            text in prop_oneof![".{0,40}", "(open|existing|internal)?:?([a-z,%é /.]|%2c|%2F|%25){0,12}"],
        ) {
            if let Ok(mode) = text.parse::<Access>() {
                prop_assert_eq!(mode.to_string().parse::<Access>(), Ok(mode));
            }
        }
    }
}
