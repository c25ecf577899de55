//! Which requests are open: each holds a place of its actor and one of the node, from sending until
//! its answer's body has ended, was dropped, or the event that sent it is over.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use wasmkeep_supervisors::limits::OUTBOUND_ACTOR_OPEN_MAX;
use wasmkeep_supervisors::metrics::Metrics;

/// The requests of one instance.
pub struct OpenRequests {
    places: Arc<Semaphore>,
    of_the_node: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    open: Mutex<Vec<Weak<Open>>>,
}

impl OpenRequests {
    pub fn new(of_the_node: Arc<Semaphore>, metrics: Arc<Metrics>) -> Self {
        let places = Arc::new(Semaphore::new(OUTBOUND_ACTOR_OPEN_MAX));
        Self { places, of_the_node, metrics, open: Mutex::default() }
    }

    /// None: as many as may be are open.
    pub fn open(&self) -> Option<OpenRequest> {
        let place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let of_the_node = Arc::clone(&self.of_the_node).try_acquire_owned().ok()?;
        self.metrics.outbound_open.inc();
        let open = Arc::new(Open {
            state: Mutex::new(Some(Holding { _places: [place, of_the_node], task: None })),
            metrics: Arc::clone(&self.metrics),
        });
        let mut all = lock(&self.open);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&open));
        Some(OpenRequest(open))
    }

    /// Ends those that are still open, also where the guest kept what would end them.
    pub fn end_all(&self) {
        for open in lock(&self.open).drain(..) {
            if let Some(open) = open.upgrade() {
                open.end();
            }
        }
    }
}

impl Drop for OpenRequests {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// An open request, which ends when this goes.
pub struct OpenRequest(Arc<Open>);

impl OpenRequest {
    /// What works for this request is stopped when it ends.
    pub fn runs(&self, task: AbortHandle) {
        match &mut *lock(&self.0.state) {
            Some(holding) => holding.task = Some(task),
            None => task.abort(),
        }
    }

    pub fn has_ended(&self) -> bool {
        lock(&self.0.state).is_none()
    }

    pub fn end(&self) {
        self.0.end();
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Open {
    /// None: it has ended.
    state: Mutex<Option<Holding>>,
    metrics: Arc<Metrics>,
}

struct Holding {
    _places: [OwnedSemaphorePermit; 2],
    task: Option<AbortHandle>,
}

impl Open {
    fn end(&self) {
        let Some(holding) = lock(&self.state).take() else { return };
        if let Some(task) = &holding.task {
            task.abort();
        }
        self.metrics.outbound_open.dec();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(places: usize) -> (Arc<Semaphore>, Arc<Metrics>) {
        (Arc::new(Semaphore::new(places)), Arc::new(Metrics::new().expect("metrics")))
    }

    #[test]
    fn an_actor_has_its_own_places_and_takes_one_of_the_node_for_each() {
        let (of_the_node, metrics) = node(20);
        let [a, b] =
            [(), ()].map(|()| OpenRequests::new(Arc::clone(&of_the_node), Arc::clone(&metrics)));
        let mut of_a: Vec<_> = (0..OUTBOUND_ACTOR_OPEN_MAX).map_while(|_| a.open()).collect();
        assert_eq!(of_a.len(), OUTBOUND_ACTOR_OPEN_MAX);
        assert!(a.open().is_none(), "one more than an actor may have");
        let of_b: Vec<_> = (0..4).map_while(|_| b.open()).collect();
        assert_eq!(of_b.len(), 4);
        assert!(b.open().is_none(), "one more than the node may have");
        assert_eq!(metrics.outbound_open.get(), 20);
        of_a.pop();
        assert!(b.open().is_some());
        drop((of_a, of_b));
        assert_eq!(of_the_node.available_permits(), 20);
        assert_eq!(metrics.outbound_open.get(), 0);
    }

    async fn is_stopped(task: tokio::task::JoinHandle<()>) -> bool {
        let ended = tokio::time::timeout(std::time::Duration::from_secs(20), task).await;
        ended.is_ok_and(|ended| ended.is_err_and(|error| error.is_cancelled()))
    }

    #[tokio::test]
    async fn the_end_of_an_event_ends_what_the_guest_keeps() {
        let (of_the_node, metrics) = node(2);
        let requests = OpenRequests::new(Arc::clone(&of_the_node), Arc::clone(&metrics));
        let kept = requests.open().expect("a place");
        let task = tokio::spawn(std::future::pending::<()>());
        kept.runs(task.abort_handle());
        requests.end_all();
        assert!(kept.has_ended());
        assert!(is_stopped(task).await);
        assert_eq!(of_the_node.available_permits(), 2);
        drop(kept);
        assert_eq!(metrics.outbound_open.get(), 0);

        let task = tokio::spawn(std::future::pending::<()>());
        let kept = requests.open().expect("a place");
        drop(requests);
        kept.runs(task.abort_handle());
        assert!(is_stopped(task).await);
        assert_eq!(of_the_node.available_permits(), 2);
    }
}
