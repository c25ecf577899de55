//! Runs the keeper of the node's lease on a thread of its own, with a runtime of its own: whatever
//! guests, uploads and requests take of the others, renewals go out.
//!
//! The keeper's bucket must be its own too, and used nowhere else: its connections live on this
//! runtime.

use std::thread::JoinHandle;

use anyhow::{Context, Result};
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use wasmkeep_supervisors::lease::{Ended, LeaseKeeper, LeaseView, Order};

/// A lease that is kept. When this is dropped the keeping goes on; `release` ends it.
pub struct LeaseThread {
    orders: watch::Sender<Order>,
    view: watch::Receiver<LeaseView>,
    ended: oneshot::Receiver<Ended>,
    thread: JoinHandle<()>,
}

impl LeaseThread {
    pub fn start(keeper: LeaseKeeper) -> Result<Self> {
        let runtime =
            Builder::new_current_thread().enable_all().build().context("start the lease")?;
        let (orders, ordered) = watch::channel(Order::Serve);
        let (tell, ended) = oneshot::channel();
        let view = keeper.view();
        let thread = std::thread::Builder::new()
            .name("lease".into())
            .spawn(move || {
                let ended = runtime.block_on(keeper.run(ordered));
                // Nobody may want to know.
                let _ = tell.send(ended);
            })
            .context("start the lease's thread")?;
        Ok(Self { orders, view, ended, thread })
    }

    pub fn view(&self) -> watch::Receiver<LeaseView> {
        self.view.clone()
    }

    /// Tells the others that this node takes nothing more.
    pub fn drain(&self) {
        self.orders.send_replace(Order::Drain);
    }

    /// How it ended; none when the keeper panicked. The term has ended in either case.
    pub async fn ended(&mut self) -> Option<Ended> {
        (&mut self.ended).await.ok()
    }

    /// Gives the lease back. No hold may be left.
    pub async fn release(mut self) -> Option<Ended> {
        self.orders.send_replace(Order::Release);
        let ended = self.ended().await;
        let thread = self.thread;
        if !matches!(tokio::task::spawn_blocking(move || thread.join()).await, Ok(Ok(()))) {
            tracing::error!("the lease's thread ended badly");
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wasmkeep_supervisors::address::NodeId;
    use wasmkeep_supervisors::lease::{LeaseParts, LeaseRecord, LeaseState, Load, Told, Validity};
    use wasmkeep_supervisors::testing::{ManualClock, MemoryBucket, SeededRandom};

    use super::*;
    use crate::serve::BootClock;

    fn keeper(memory: &MemoryBucket, load: Arc<dyn Fn() -> Load + Send + Sync>) -> LeaseKeeper {
        let clock = Arc::new(BootClock);
        LeaseKeeper::new(LeaseParts {
            bucket: Arc::new(memory.clone()),
            clock: Arc::clone(&clock) as _,
            random: Arc::new(SeededRandom::new(1)),
            validity: Validity::new(clock),
            node: NodeId::parse("n1").expect("a legal name"),
            told: Told {
                address: "127.0.0.1:1".into(),
                key: [0; 32],
                serves: vec![],
                version: "0".into(),
                features: vec![],
            },
            last_session: None,
            remember: Arc::new(|_| {}),
            load,
        })
    }

    #[tokio::test]
    async fn a_lease_is_kept_until_it_is_released() {
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
        let lease = LeaseThread::start(keeper(&memory, Arc::new(Load::default))).expect("started");
        let mut view = lease.view();
        let is_live = view.wait_for(|view| view.session.is_some()).await.is_ok();
        assert!(is_live, "the keeper is gone");
        assert_eq!(lease.release().await, Some(Ended::Released));
        let body = memory.body("nodes/n1").expect("a lease");
        let state = LeaseRecord::decode(&body).map(|lease| lease.state);
        assert_eq!(state, Ok(LeaseState::Released));
    }

    #[tokio::test]
    async fn a_keeper_that_panics_is_told_from_one_that_ends() {
        let memory = MemoryBucket::new(ManualClock::new(1_700_000_000_500));
        let keeper = keeper(&memory, Arc::new(|| panic!("as the test wants")));
        let mut lease = LeaseThread::start(keeper).expect("started");
        assert_eq!(lease.ended().await, None);
    }
}
