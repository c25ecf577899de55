//! Looks at the leases of the others, for as long as it is polled.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio::select;

use super::peers::{Peers, PeersError};
use crate::address::NodeId;
use crate::bucket::{ListAllError, list_all};
use crate::lease::{LEASES, node_of_key};
use crate::limits::{LEASE_PERIOD, NODES_LIST_PERIOD, NODES_MAX, NODES_READ_AT_ONCE};
use crate::ports::Wait;
use crate::time::NodeTime;

impl Peers {
    /// Reads every lease once a period and all keys at times. It never ends.
    pub async fn watch(&self) {
        let clock = &self.parts.clock;
        let mut listed: Option<NodeTime> = None;
        loop {
            let began = clock.now();
            if listed.is_none_or(|listed| began.since(listed) >= NODES_LIST_PERIOD) {
                match self.list().await {
                    Ok(()) => listed = Some(began),
                    Err(error) => tracing::warn!(cause = %error, "nodes not listed"),
                }
            }
            self.look().await;
            self.rest(began).await;
        }
    }

    /// Until the next look is due. Whoever says hello meanwhile is read at once.
    async fn rest(&self, began: NodeTime) {
        loop {
            let (_, expires) = self.to_read();
            let now = self.parts.clock.now();
            let next = began.plus(LEASE_PERIOD);
            // A lease that may be seen to have expired before is looked at then.
            let next = expires.filter(|expires| *expires > now).map_or(next, |at| next.min(at));
            select! {
                biased;
                () = self.parts.clock.sleep(next.since(now)) => return,
                () = self.hello.notified() => self.read_all(&self.take_unread()).await,
            }
        }
    }

    /// Finds nodes that nobody told of.
    async fn list(&self) -> Result<(), PeersError> {
        let listed = list_all(&*self.parts.bucket, LEASES, NODES_MAX, Wait::Record).await;
        let listed = listed.map_err(|error| match error {
            ListAllError::TooMany { .. } => PeersError::TooMany,
            ListAllError::Denied(denial) => PeersError::Denied(denial),
            ListAllError::Unknown(doubt) => PeersError::Unknown(doubt),
        })?;
        for node in listed.iter().filter_map(|object| node_of_key(&object.key)) {
            self.add(node);
        }
        Ok(())
    }

    async fn look(&self) {
        let mut nodes = self.take_unread();
        nodes.extend(self.to_read().0);
        nodes.sort();
        nodes.dedup();
        self.read_all(&nodes).await;
    }

    async fn read_all(&self, nodes: &[NodeId]) {
        for some in nodes.chunks(NODES_READ_AT_ONCE) {
            all_of(some.iter().map(|node| self.read_or_say(node)).collect()).await;
        }
    }

    async fn read_or_say(&self, node: &NodeId) {
        let was_known = self.knows(node);
        match self.read(node).await {
            Ok(_) if was_known => {}
            Ok(_) => self.forget_missing(node),
            Err(error) => {
                tracing::debug!(node = %node, cause = %error, "lease of a node not read");
                // It may never have been; the next look is to know of it.
                self.add(node.clone());
            }
        }
    }
}

/// Runs all at once, to the end of the last.
async fn all_of<F: Future<Output = ()>>(futures: Vec<F>) {
    let mut running: Vec<Pin<Box<F>>> = futures.into_iter().map(Box::pin).collect();
    poll_fn(|context| {
        running.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if running.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
