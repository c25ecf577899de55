use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

use wasmkeep_testbucket::{ACCESS_KEY, BUCKET, Dialect, SECRET_KEY, TestBucket};

use super::{Node, Setup};

/// A dead node's actors move 15 to 21 s after its last write; machines of tests are slow.
pub const TAKEOVER_PATIENCE: Duration = Duration::from_secs(60);

/// A bucket, and the nodes that share it.
pub struct Cluster {
    pub store: TestBucket,
}

impl Cluster {
    pub fn new() -> Self {
        Self { store: TestBucket::start(Dialect::Aws) }
    }

    /// A node of this cluster that serves the probe.
    pub fn node(&self, name: &str) -> Setup {
        Self::at(name, self.store.endpoint())
    }

    /// The same, with its way to the bucket through something that can be cut.
    pub fn node_behind(&self, name: &str, way: &Way) -> Setup {
        Self::at(name, &way.endpoint())
    }

    fn at(name: &str, endpoint: &str) -> Setup {
        Node::probe()
            .flag("--bucket", format!("s3://{BUCKET}/cluster"))
            .flag("--endpoint", endpoint)
            .flag("--node", name)
            .flag("--cluster-listen", "127.0.0.1:0")
            .variable("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .variable("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    }

    /// What the bucket has below this prefix of the cluster.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let prefix = format!("cluster/{prefix}");
        self.store.keys().into_iter().filter(|key| key.starts_with(&prefix)).collect()
    }
}

/// The network between one node and the bucket.
pub struct Way {
    address: SocketAddr,
    state: Arc<WayState>,
}

#[derive(Default)]
struct WayState {
    is_cut: AtomicBool,
    open: Mutex<Vec<TcpStream>>,
}

impl Way {
    pub fn to(store: &TestBucket) -> Self {
        let to = store.endpoint().trim_start_matches("http://").parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(WayState::default());
        let shared = Arc::clone(&state);
        spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                spawn(move || carry(&stream, to, &shared));
            }
        });
        Self { address, state }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Nothing passes, and nobody is told.
    pub fn cut(&self) {
        self.state.is_cut.store(true, Ordering::SeqCst);
    }

    /// New connections pass again; those of before are closed.
    pub fn mend(&self) {
        self.state.is_cut.store(false, Ordering::SeqCst);
        let mut open = self.state.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn carry(near: &TcpStream, to: SocketAddr, state: &Arc<WayState>) -> io::Result<()> {
    let far = TcpStream::connect(to)?;
    let mut open = state.open.lock().unwrap_or_else(PoisonError::into_inner);
    open.extend([near.try_clone()?, far.try_clone()?]);
    drop(open);
    let (back_from, back_to, shared) = (far.try_clone()?, near.try_clone()?, Arc::clone(state));
    spawn(move || pump(back_from, back_to, &shared));
    pump(near.try_clone()?, far, state)
}

fn pump(mut from: TcpStream, mut to: TcpStream, state: &WayState) -> io::Result<()> {
    let mut piece = [0; 16 * 1024];
    loop {
        let length = from.read(&mut piece)?;
        while state.is_cut.load(Ordering::SeqCst) {
            sleep(Duration::from_millis(20));
        }
        if length == 0 {
            return to.shutdown(Shutdown::Write);
        }
        to.write_all(&piece[..length])?;
    }
}
