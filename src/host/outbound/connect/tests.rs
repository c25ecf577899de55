use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;

use super::*;

/// Gives the answers it was given, one for each time it is asked.
struct Scripted(Mutex<VecDeque<Vec<IpAddr>>>);

impl Resolver for Scripted {
    fn addresses<'a>(&'a self, _name: &'a str) -> Answering<'a, Vec<IpAddr>> {
        let next = self.0.lock().expect("a lock").pop_front();
        Box::pin(async move { next.ok_or_else(|| io::Error::other("no such name")) })
    }
}

/// Connects to one server, wherever it is asked to, and writes down where that was.
struct Recording {
    asked: Arc<Mutex<Vec<SocketAddr>>>,
    answering: Vec<IpAddr>,
    server: Option<SocketAddr>,
}

impl Connector for Recording {
    fn connect(&self, address: SocketAddr) -> Answering<'_, TcpStream> {
        self.asked.lock().expect("a lock").push(address);
        Box::pin(async move {
            match self.server {
                Some(server) if self.answering.contains(&address.ip()) => {
                    TcpStream::connect(server).await
                }
                Some(_) => std::future::pending().await,
                None => Err(io::ErrorKind::ConnectionRefused.into()),
            }
        })
    }
}

struct Net {
    network: Network,
    asked: Arc<Mutex<Vec<SocketAddr>>>,
    _listener: Option<TcpListener>,
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

impl Net {
    async fn new(answers: &[&[&str]], answering: &[&str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let server = listener.local_addr().expect("an address");
        Self { _listener: Some(listener), ..Self::with(answers, answering, Some(server)) }
    }

    fn with(answers: &[&[&str]], answering: &[&str], server: Option<SocketAddr>) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let script = answers.iter().map(|answer| ips(answer)).collect();
        let connector = Recording { asked: Arc::clone(&asked), answering: ips(answering), server };
        let network = Network {
            resolver: Box::new(Scripted(Mutex::new(script))),
            connector: Box::new(connector),
        };
        Self { network, asked, _listener: None }
    }

    async fn connect(&self, policy: &Policy, authority: &str) -> Result<TcpStream, Failure> {
        let to = policy.destination("http", authority).expect("nothing to refuse yet");
        self.network.connect(policy, &to, Instant::now() + Duration::from_secs(30)).await
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a lock").iter().map(SocketAddr::to_string).collect()
    }
}

/// What the guest is told, and whether policy was the reason.
fn code(failure: Result<TcpStream, Failure>) -> (String, bool) {
    let failure = failure.expect_err("no connection");
    (format!("{:?}", failure.code), failure.denied)
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_connected_to_as_it_was_checked() {
    let policy = Policy::default();
    let net = Net::new(&[&["93.184.216.34"], &["127.0.0.1"]], &["93.184.216.34"]).await;
    net.connect(&policy, "rebinds.example:8080").await.expect("the first answer is public");
    assert_eq!(net.asked(), ["93.184.216.34:8080"]);
    let again = net.connect(&policy, "rebinds.example:8080").await;
    assert!(code(again).1, "the second answer is not");
    assert_eq!(net.asked(), ["93.184.216.34:8080"]);
}

#[tokio::test]
async fn of_a_names_addresses_only_those_that_are_allowed_are_tried() {
    let addresses = ["10.0.0.1", "::ffff:127.0.0.1", "1.1.1.1", "fd00::1", "::ffff:2.2.2.2"];
    let net = Net::with(&[&addresses], &[], None);
    let failed = net.connect(&Policy::default(), "mixed.example").await;
    assert_eq!(code(failed), ("ConnectionRefused".into(), false));
    assert_eq!(net.asked(), ["1.1.1.1:80", "2.2.2.2:80"]);
}

#[tokio::test]
async fn a_name_inside_fails_as_one_that_does_not_exist() {
    let inside = Net::with(&[&["127.0.0.1", "::1"]], &[], None);
    let unknown = Net::with(&[], &[], None);
    let empty = Net::with(&[&[]], &[], None);
    let (inside_code, denied) = code(inside.connect(&Policy::default(), "localhost").await);
    assert!(denied);
    for net in [unknown, empty] {
        let failed = net.connect(&Policy::default(), "unknown.example").await;
        assert_eq!(code(failed), (inside_code.clone(), false));
    }
    assert_eq!(inside.asked(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
    let net = Net::new(&[&["1.1.1.1", "2.2.2.2", "3.3.3.3"]], &["3.3.3.3"]).await;
    net.connect(&Policy::default(), "slow.example").await.expect("the third answers");
    assert_eq!(net.asked(), ["1.1.1.1:80", "2.2.2.2:80", "3.3.3.3:80"]);

    let net = Net::new(&[&["1.1.1.1", "2.2.2.2"]], &[]).await;
    let failed = net.connect(&Policy::default(), "silent.example").await;
    assert_eq!(code(failed).0, "ConnectionTimeout");
}

#[tokio::test]
async fn a_literal_is_never_looked_up() {
    let net = Net::new(&[], &["8.8.8.8"]).await;
    net.connect(&Policy::default(), "0x08080808:99").await.expect("it is public");
    assert_eq!(net.asked(), ["8.8.8.8:99"]);
}

#[tokio::test]
async fn the_systems_resolver_knows_localhost() {
    let addresses = SystemResolver::default().addresses("localhost").await.expect("it is known");
    assert!(addresses.iter().all(IpAddr::is_loopback) && !addresses.is_empty());
}
