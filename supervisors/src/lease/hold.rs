//! A term, from its first beat to its end.

use tokio::sync::watch;

use super::process::{Lease, LeaseKeeper, Order, Unwritten, phase_of, state_for, until};
use super::record::{LeaseRecord, LeaseState};
use super::rules::{self, Asked, Overwritten};
use super::view::{Ended, Why};
use crate::bucket::Expected;
use crate::limits::LEASE_PERIOD;

/// What became of a renewal.
enum After {
    Renewed,
    Lapsed(Why),
    Ended(Ended),
}

impl LeaseKeeper {
    /// Renews the lease until it is released or lost for good, or says why it lapsed.
    pub(super) async fn hold(
        &mut self,
        mut lease: Lease,
        orders: &mut watch::Receiver<Order>,
    ) -> Result<Ended, Why> {
        loop {
            self.wait_for_beat(&lease, orders).await;
            let order = *orders.borrow();
            if order == Order::Release {
                return Ok(self.release(lease).await);
            }
            match self.beat(&mut lease, state_for(order)).await {
                After::Renewed => {}
                After::Lapsed(why) => {
                    self.parts.validity.end();
                    return Err(why);
                }
                After::Ended(ended) => {
                    self.parts.validity.end();
                    return Ok(ended);
                }
            }
        }
    }

    /// Until the next renewal is due, or an order wants one now.
    async fn wait_for_beat(&self, lease: &Lease, orders: &mut watch::Receiver<Order>) {
        let wait = lease.sent.plus(LEASE_PERIOD).since(self.now());
        let is_news = |order| order == Order::Release || state_for(order) != lease.state;
        tokio::select! {
            biased;
            () = until(orders, is_news) => {}
            () = self.parts.clock.sleep(wait) => {}
        }
    }

    async fn beat(&self, lease: &mut Lease, state: LeaseState) -> After {
        let record = self.record(lease.session, state.clone(), lease.beat + 1);
        let sent = self.now();
        let expected = Expected::Version(lease.etag.clone());
        // It returns at the horizon, whatever the bucket does: the term ends in time.
        let written = self.write(&record, expected, lease.horizon).await;
        let asked = Asked { sent, answered: self.now() };
        let horizon = rules::renewed(asked, lease.horizon);
        match (written, horizon) {
            (Ok(written), Some(horizon)) => {
                self.parts.validity.extend(horizon, written.date);
                *lease = Lease {
                    session: lease.session,
                    etag: written.etag,
                    beat: record.beat,
                    state,
                    sent,
                    horizon,
                };
                self.show(phase_of(&lease.state), Some(lease.session), None);
                After::Renewed
            }
            (Err(Unwritten::Denied(denial)), _) => After::Ended(Ended::Denied(denial)),
            (Err(Unwritten::Unknown(doubt)), _) => After::Lapsed(Why::Unknown(doubt)),
            // Its own lapse came first: it begins anew, and looks at what is there then.
            (_, None) | (Err(Unwritten::TooLate), _) => After::Lapsed(Why::Lapsed),
            (Err(Unwritten::Lost(None)), _) => After::Lapsed(Why::Gone),
            (Err(Unwritten::Lost(Some(body))), _) => After::Ended(self.ended_by(&body)),
        }
    }

    fn ended_by(&self, body: &[u8]) -> Ended {
        let by = self.parts.node.clone();
        match rules::overwritten(LeaseRecord::decode(body)) {
            Overwritten::Fenced { by, reason } => Ended::Fenced { by, reason },
            Overwritten::Replaced => {
                let reason = "another process acts under this node's name".to_owned();
                Ended::Fenced { by, reason }
            }
            Overwritten::Unreadable(error) => {
                let reason = format!("what is in the place of its lease cannot be read: {error}");
                Ended::Fenced { by, reason }
            }
        }
    }

    /// Ends the term, then tells the others, who take over on sight.
    async fn release(&self, lease: Lease) -> Ended {
        self.parts.validity.end();
        let record = self.record(lease.session, LeaseState::Released, lease.beat + 1);
        let expected = Expected::Version(lease.etag);
        match self.write(&record, expected, lease.horizon).await {
            Ok(_) => tracing::info!(node = %self.parts.node, "lease released"),
            // It expires by itself, which takes longer.
            Err(_) => tracing::warn!(node = %self.parts.node, "lease not released"),
        }
        Ended::Released
    }
}
