//! Several nodes of one cluster in one process, for development: each on a thread of its own, with all
//! that a node has. They stop together.

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow, bail};
use tokio::sync::watch;

use super::{Source, Started, run_until};
use crate::config::ServeConfig;

/// Runs these nodes until the process is told to stop, or one of them ends. They start one after
/// another, each after the first at the next free port.
pub fn run_together(configs: Vec<ServeConfig>, tell: impl FnOnce(Vec<Started>)) -> Result<()> {
    let stop = watch::Sender::new(false);
    let mut nodes = Vec::new();
    let started = start_all(configs, &stop, &mut nodes);
    let started = match started {
        Ok(Some(all)) => {
            tell(all);
            Ok(())
        }
        Ok(None) => Ok(()),
        Err(error) => {
            stop.send_replace(true);
            Err(error)
        }
    };
    // All are waited for, however the first one ended.
    let ended: Vec<Result<()>> = nodes.into_iter().map(joined).collect();
    ended.into_iter().collect::<Result<()>>().and(started)
}

/// None when one of them has ended before all had started.
fn start_all(
    configs: Vec<ServeConfig>,
    stop: &watch::Sender<bool>,
    nodes: &mut Vec<Node>,
) -> Result<Option<Vec<Started>>> {
    let mut all = Vec::<Started>::new();
    for mut config in configs {
        if let Some(before) = all.last() {
            config.listen = next_address(config.listen, before.address)?;
        }
        let (node, told) = start(config, stop)?;
        nodes.push(node);
        let Ok(started) = told.recv() else { return Ok(None) };
        all.push(started);
        if *stop.borrow() {
            return Ok(None);
        }
    }
    Ok(Some(all))
}

type Node = JoinHandle<Result<()>>;

/// Starts a node. The other end tells of it once it takes traffic.
fn start(
    config: ServeConfig,
    stop: &watch::Sender<bool>,
) -> Result<(Node, mpsc::Receiver<Started>)> {
    let (tell, told) = mpsc::channel();
    let (stop, stopped) = (stop.clone(), stop.subscribe());
    let name = config.cluster.as_ref().map_or("node", |cluster| cluster.node.as_str()).to_owned();
    let node = std::thread::Builder::new().name(name.clone());
    let node = node.spawn(move || {
        let tell = move |started| {
            // Nobody waits for it when the others have ended.
            let _ = tell.send(started);
        };
        let ended = run_until(&config, Source::Files, stopped, tell);
        stop.send_replace(true);
        ended.with_context(|| format!("run the node {name}"))
    });
    Ok((node.context("start a thread for a node")?, told))
}

fn joined(node: Node) -> Result<()> {
    node.join().unwrap_or_else(|_| Err(anyhow!("a node's thread failed: see the log above")))
}

/// The next port of this address that is free; any, if the first node took any.
fn next_address(asked: SocketAddr, before: SocketAddr) -> Result<SocketAddr> {
    if asked.port() == 0 {
        return Ok(asked);
    }
    let ip = asked.ip();
    let Some(first) = before.port().checked_add(1) else {
        bail!("there is no port above {before}")
    };
    (first..=u16::MAX)
        .map(|port| SocketAddr::new(ip, port))
        .find(|address| TcpListener::bind(address).is_ok())
        .with_context(|| format!("find a free port above {before}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_passed_over() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        assert_eq!(
            next_address(any, "127.0.0.1:4000".parse().expect("an address")).ok(),
            Some(any)
        );
        let taken = TcpListener::bind(any).expect("a port");
        let taken = taken.local_addr().map(|address| (taken, address)).expect("its address");
        let before = SocketAddr::new(taken.1.ip(), taken.1.port() - 1);
        let next = next_address(before, before).expect("a port");
        assert!(next.port() > taken.1.port(), "{next}");
        let last = SocketAddr::new(any.ip(), u16::MAX);
        assert!(next_address(last, last).is_err());
    }
}
