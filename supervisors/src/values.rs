//! What the operator gave a class to read: configuration and secrets. Never shown.

use std::collections::HashMap;
use std::fmt;

/// Names and their values.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Values(HashMap<String, String>);

impl Values {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Adds what a layer says; names that are there already keep their value, and are returned.
    pub fn add_layer(&mut self, layer: Values) -> Vec<String> {
        let mut shadowed = Vec::new();
        for (name, value) in layer.0 {
            match self.0.entry(name) {
                std::collections::hash_map::Entry::Occupied(kept) => {
                    shadowed.push(kept.key().clone());
                }
                std::collections::hash_map::Entry::Vacant(free) => {
                    free.insert(value);
                }
            }
        }
        shadowed.sort();
        shadowed
    }
}

impl FromIterator<(String, String)> for Values {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> Self {
        Self(pairs.into_iter().collect())
    }
}

/// The names only: a value may be a secret.
impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.0.keys().collect();
        names.sort();
        f.debug_set().entries(names).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_first_layer_that_has_a_name_wins() {
        let mut given = values(&[("A", "deployed")]);
        let shadowed = given.add_layer(values(&[("A", "of the node"), ("B", "of the node")]));
        assert_eq!(shadowed, ["A"]);
        assert_eq!(given.get("A"), Some("deployed"));
        assert_eq!(given.get("B"), Some("of the node"));
        assert_eq!(given.get("C"), None);
    }

    #[test]
    fn values_are_not_shown() {
        let shown = format!("{:?}", values(&[("TOKEN", "hunter2")]));
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
    }
}
