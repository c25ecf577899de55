//! An alarm as it stands in its actor's database: `<due in ms> <failed attempts>`.

use crate::time::Timestamp;

/// A pending alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alarm {
    /// When it is due, or due again.
    pub due: Timestamp,
    /// How often `on-alarm` has failed since it was set.
    pub failures: u32,
}

impl Alarm {
    /// As a guest sets it.
    pub fn new(due: Timestamp) -> Self {
        Self { due, failures: 0 }
    }

    pub fn to_text(self) -> String {
        format!("{} {}", self.due.0, self.failures)
    }

    /// None for anything that `to_text` does not write.
    pub fn from_text(text: &str) -> Option<Self> {
        let (due, failures) = text.split_once(' ')?;
        let alarm = Self { due: Timestamp(due.parse().ok()?), failures: failures.parse().ok()? };
        (alarm.to_text() == text).then_some(alarm)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(due: u64, failures: u32) {
            let alarm = Alarm { due: Timestamp(due), failures };
            prop_assert_eq!(Alarm::from_text(&alarm.to_text()), Some(alarm));
        }

        #[test]
        fn anything_else_is_refused(text in ".{0,30}") {
            if let Some(alarm) = Alarm::from_text(&text) {
                prop_assert_eq!(alarm.to_text(), text);
            }
        }
    }
}
