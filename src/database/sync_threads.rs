//! The threads that wait for the disk on behalf of actors.
//!
//! A thread that has waited takes the next file without having been woken for it, and meanwhile the
//! runtime's workers need not step aside. So they are few: each more only switches more, as the disk
//! takes the flushes of several files together (ADR 0021).

use std::collections::VecDeque;
use std::fs::File;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::oneshot;

type Synced = Result<(), String>;

#[derive(Default)]
struct Threads {
    jobs: Mutex<Jobs>,
    more: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

struct Job {
    file: Arc<File>,
    ended: Box<dyn FnOnce(&Synced) + Send>,
    done: oneshot::Sender<Synced>,
    _busy: Busy,
}

static THREADS: LazyLock<Threads> = LazyLock::new(Threads::default);
static THREADS_MAX: LazyLock<usize> =
    LazyLock::new(|| 2 * thread::available_parallelism().map_or(1, usize::from));
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// While it is there, somebody waits for the disk.
pub(super) struct Busy(());

impl Busy {
    pub fn begin() -> Self {
        BUSY.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether somebody waits for the disk now.
pub(super) fn is_busy() -> bool {
    BUSY.load(Ordering::Relaxed) > 0
}

/// Syncs the file in turn with others, and calls `ended` then, whether or not the future is waited for.
pub(super) fn sync(
    file: Arc<File>,
    ended: impl FnOnce(&Synced) + Send + 'static,
) -> impl Future<Output = Synced> + Send {
    #[cfg(test)]
    let injected = super::sync::faults::on_sync(super::sync::File::Wal);
    #[cfg(not(test))]
    let injected: Option<Synced> = None;
    let (done, synced) = oneshot::channel();
    let job = Job { file, ended: Box::new(ended), done, _busy: Busy::begin() };
    match injected {
        Some(result) => job.end(result),
        None => THREADS.take(job),
    }
    // Only a panic of its thread drops it unanswered.
    async { synced.await.unwrap_or_else(|error| Err(error.to_string())) }
}

impl Job {
    fn run(self) {
        let synced = self.file.sync_data().map_err(|error| error.to_string());
        self.end(synced);
    }

    fn end(self, synced: Synced) {
        (self.ended)(&synced);
        let _ = self.done.send(synced);
    }
}

impl Threads {
    fn take(&'static self, job: Job) {
        let mut jobs = self.lock();
        jobs.waiting.push_back(job);
        if jobs.idle > 0 {
            drop(jobs);
            self.more.notify_one();
        } else if jobs.threads < *THREADS_MAX {
            let started = thread::Builder::new().name("sync".into()).spawn(|| self.work());
            match started {
                Ok(_) => jobs.threads += 1,
                // Those there are will come to it.
                Err(_) if jobs.threads > 0 => {}
                Err(error) => {
                    let job = jobs.waiting.pop_back();
                    drop(jobs);
                    if let Some(job) = job {
                        job.end(Err(error.to_string()));
                    }
                }
            }
        }
    }

    fn work(&self) {
        loop {
            self.next().run();
        }
    }

    fn next(&self) -> Job {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return job;
            }
            jobs.idle += 1;
            jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn many_files_are_synced_by_few_threads() {
        let folder = tempfile::tempdir().expect("a folder");
        let synced: Vec<_> = (0..100)
            .map(|n| File::create(folder.path().join(n.to_string())).expect("a file"))
            .map(|file| sync(Arc::new(file), |_| {}))
            .collect();
        for synced in synced {
            assert_eq!(synced.await, Ok(()));
        }
        assert!(THREADS.lock().threads <= *THREADS_MAX);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_synced_says_so() {
        let (reader, _writer) = std::io::pipe().expect("a pipe");
        let pipe = File::from(std::os::fd::OwnedFd::from(reader));
        assert!(sync(Arc::new(pipe), |synced| assert!(synced.is_err())).await.is_err());
    }
}
