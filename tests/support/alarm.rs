//! Alarms, as a test sets and sees them.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use super::Actor;
use super::wait::eventually;

pub const HOUR_MS: u64 = 60 * 60 * 1000;

/// One run of the probe's `on-alarm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct Ran {
    pub at: u64,
    pub attempt: u32,
}

pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(now.as_millis()).expect("milliseconds fit")
}

impl Actor {
    /// From now on `on-alarm` runs these steps of the probe.
    #[track_caller]
    pub fn on_alarm(&self, steps: Json) {
        assert_eq!(self.post("/on-alarm", json!({ "steps": steps }).to_string()).text(), "kept");
    }

    #[track_caller]
    pub fn set_alarm_in(&self, ms: u64) {
        let set = self.post(&format!("/alarm?in={ms}"), "").json();
        assert!(set["at"].is_u64(), "{set}");
    }

    #[track_caller]
    pub fn set_alarm_at(&self, ms: u64) {
        assert_eq!(self.post(&format!("/alarm?at={ms}"), "").json()["at"], json!(ms));
    }

    /// When the pending alarm is due.
    #[track_caller]
    pub fn pending(&self) -> Option<u64> {
        self.get("/alarm").json()["at"].as_u64()
    }

    /// The runs of `on-alarm` since its steps were given, the failed ones too.
    #[track_caller]
    pub fn alarms(&self) -> Vec<Ran> {
        serde_json::from_value(self.get("/alarms").json()).expect("runs of on-alarm")
    }

    #[track_caller]
    pub fn attempts(&self) -> Vec<u32> {
        self.alarms().into_iter().map(|ran| ran.attempt).collect()
    }

    /// Waits until `on-alarm` has begun to run so often.
    #[track_caller]
    pub fn ran(&self, times: usize) -> Vec<Ran> {
        let mut ran = Vec::new();
        eventually(&format!("on-alarm runs {times} times"), || {
            ran = self.alarms();
            ran.len() >= times
        });
        assert_eq!(ran.len(), times, "{ran:?}");
        ran
    }

    /// What the steps of each run that succeeded answered.
    #[track_caller]
    pub fn alarms_said(&self) -> Vec<Json> {
        let said = self.query("SELECT answers FROM alarm_said");
        let said: Vec<[String; 1]> = serde_json::from_value(said).expect("rows of one text");
        said.iter().map(|[text]| serde_json::from_str(text).expect("JSON")).collect()
    }
}
