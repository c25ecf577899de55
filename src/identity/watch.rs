//! How a connection between two nodes is looked after.

use std::io;

use rustix::net::sockopt;
use tokio::net::TcpStream;
use wasmkeep_supervisors::limits::PEER_SILENCE;

/// Questions to a silent machine before it counts as lost.
const PROBES: u32 = 3;

/// Has the kernel end the connection once the other machine is silent for `PEER_SILENCE`: one that
/// lost its power says nothing more, and what waits for its answer would wait for ever.
pub fn watch(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, PEER_SILENCE / 4)?;
    sockopt::set_tcp_keepintvl(stream, PEER_SILENCE / 4)?;
    sockopt::set_tcp_keepcnt(stream, PROBES)?;
    let silence = u32::try_from(PEER_SILENCE.as_millis()).unwrap_or(u32::MAX);
    sockopt::set_tcp_user_timeout(stream, silence)?;
    Ok(())
}
