//! Everything a run leaves to chance, from one seed.

use std::time::Duration;

use wasmkeep_supervisors::testing::SeededRandom;

pub struct Dice(SeededRandom);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    /// Dice of their own: what is drawn from them changes nothing that is drawn here.
    pub fn fork(&self) -> Self {
        Self::new(self.0.next())
    }

    pub fn next(&self) -> u64 {
        self.0.next()
    }

    /// From 0 up to 1, without 1.
    pub fn unit(&self) -> f64 {
        (self.0.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn chance(&self, of: f64) -> bool {
        self.unit() < of
    }

    pub fn between(&self, least: f64, most: f64) -> f64 {
        least + self.unit() * (most - least)
    }

    pub fn seconds(&self, least: f64, most: f64) -> Duration {
        Duration::from_secs_f64(self.between(least, most))
    }

    /// Mostly short, sometimes long.
    pub fn delay(&self, mean: f64) -> Duration {
        Duration::from_secs_f64(-mean * (1.0 - self.unit()).ln())
    }

    pub fn one_of<'a, T>(&self, from: &'a [T]) -> &'a T {
        let at = (self.unit() * from.len() as f64) as usize;
        &from[at.min(from.len() - 1)]
    }
}
