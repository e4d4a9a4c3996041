//! Whether this machine reaches others by tcp and by udp.

use std::io::{self, ErrorKind, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use egret::rt;

use super::fault::{Fault, planted};
use super::message::{PairToken, PairWay, PeerPorts, PeerWays};

/// What is tried next, and what was found.
#[derive(Debug)]
struct PairTries {
    left: Vec<(usize, Try)>,
    ways: Vec<PeerWays>,
}

#[derive(Debug, Clone, Copy)]
enum Try {
    Tcp(SocketAddr),
    Udp(SocketAddr),
}

/// Tries to reach each, many at a time.
pub(super) fn reach(peers: &[PeerPorts], token: PairToken) -> Vec<PeerWays> {
    let way = |address: Option<SocketAddr>| PairWay {
        reached: false,
        why: Some(
            if address.is_some() { "it was not tried" } else { "it does not listen" }.to_owned(),
        ),
    };
    let ways = peers.iter().map(|peer| {
        let PeerPorts { peer, tcp, udp } = *peer;
        PeerWays { peer, tcp: way(tcp), udp: way(udp) }
    });
    let left = peers.iter().enumerate().flat_map(|(at, peer)| {
        let tries = [peer.tcp.map(Try::Tcp), peer.udp.map(Try::Udp)];
        tries.into_iter().flatten().map(move |one| (at, one))
    });
    let tries = PairTries { left: left.collect(), ways: ways.collect() };
    let threads = tries.left.len().min(THREADS_MAX);
    let tries = Arc::new(Mutex::new(tries));
    let work = |_| {
        let tries = Arc::clone(&tries);
        rt::spawn("info pairs", move || try_all(&tries, token))
    };
    // What no thread is there for is "not tried".
    let threads: Vec<_> = (0..threads).map_while(|number| work(number).ok()).collect();
    threads.into_iter().for_each(|thread| _ = thread.join());
    std::mem::take(&mut lock(&tries).ways)
}

/// How long [`reach`] takes at most.
pub(super) fn reach_within(peers: usize) -> Duration {
    let rounds = (2 * peers).div_ceil(THREADS_MAX);
    TRY_WITHIN * u32::try_from(2 * rounds).unwrap_or(u32::MAX)
}

fn try_all(tries: &Mutex<PairTries>, token: PairToken) {
    loop {
        let next = lock(tries).left.pop();
        let Some((at, one)) = next else { return };
        let reached = match one {
            Try::Tcp(address) => by_tcp(address, token),
            Try::Udp(address) => by_udp(address, token),
        };
        let way = PairWay::from(reached);
        let ways = &mut lock(tries).ways[at];
        match one {
            Try::Tcp(_) => ways.tcp = way,
            Try::Udp(_) => ways.udp = way,
        }
    }
}

fn lock(tries: &Mutex<PairTries>) -> std::sync::MutexGuard<'_, PairTries> {
    tries.lock().unwrap_or_else(PoisonError::into_inner)
}

fn by_tcp(address: SocketAddr, token: PairToken) -> Result<(), String> {
    let ask = || -> io::Result<_> {
        let mut stream = TcpStream::connect_timeout(&address, TRY_WITHIN)?;
        stream.set_read_timeout(Some(TRY_WITHIN))?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        Ok(answer)
    };
    is_ours(&ask().map_err(|why| in_words(&why))?, token)
}

/// A datagram may be lost: it is repeated.
fn by_udp(address: SocketAddr, token: PairToken) -> Result<(), String> {
    let until = rt::now() + TRY_WITHIN;
    let ask = || -> io::Result<_> {
        // Not the socket that listens: what has left by that may have opened a firewall for answers.
        let socket = match address {
            SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
        }?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(REPEAT_AFTER))?;
        loop {
            socket.send(&token.question.to_le_bytes())?;
            let mut answer = [0; 8];
            match socket.recv(&mut answer) {
                Ok(_) => return Ok(answer),
                Err(why) if is_timeout(&why) && rt::now() < until => {}
                Err(why) => return Err(why),
            }
        }
    };
    is_ours(&ask().map_err(|why| in_words(&why))?, token)
}

/// Whether an answer is one of this check, and not of another process that has the port.
fn is_ours(answer: &[u8; 8], token: PairToken) -> Result<(), String> {
    match *answer == token.answer.to_le_bytes() || planted(Fault::StrangerBelieved) {
        true => Ok(()),
        false => Err("another process answers there".to_owned()),
    }
}

fn is_timeout(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn in_words(why: &io::Error) -> String {
    match why.kind() {
        _ if is_timeout(why) => format!("no answer within {} s", TRY_WITHIN.as_secs()),
        ErrorKind::ConnectionRefused => "refused".to_owned(),
        ErrorKind::UnexpectedEof => "closed without an answer".to_owned(),
        _ => why.to_string(),
    }
}

/// For a connection, and for its answer.
const TRY_WITHIN: Duration = Duration::from_secs(2);
/// A datagram that was not answered by then is sent again.
const REPEAT_AFTER: Duration = Duration::from_millis(200);
/// Tries at the same time.
const THREADS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::super::fault::caught;
    use super::super::ports;
    use super::*;

    const TOKEN: PairToken = PairToken { question: 5, answer: 6 };

    #[test]
    fn who_listens_is_reached() {
        let listens = ports::listen(Some("localhost".to_owned()), TOKEN);
        let (tcp, udp) = (listens.tcp.address, listens.udp.address);
        assert!(tcp.is_some() && udp.is_some(), "{listens:?}");
        let peer = |peer| PeerPorts { peer, tcp, udp };
        let ways = reach(&[peer(3), peer(9)], TOKEN);
        assert_eq!(ways.iter().map(|ways| ways.peer).collect::<Vec<_>>(), [3, 9]);
        assert!(ways.iter().all(|ways| ways.tcp.reached && ways.udp.reached), "{ways:?}");
        let other = PairToken { answer: 7, ..TOKEN };
        let ways = &reach(&[peer(0)], other)[0];
        assert!(!ways.tcp.reached && !ways.udp.reached, "{ways:?}");
    }

    #[test]
    fn a_port_where_no_process_listens_refuses() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let ways = &reach(&[PeerPorts { peer: 0, tcp: Some(address), udp: Some(udp) }], TOKEN)[0];
        assert_eq!(ways.tcp.why.as_deref(), Some("refused"));
        assert_eq!(ways.udp.why.as_deref(), Some("refused"));
        let ways = &reach(&[PeerPorts { peer: 0, tcp: None, udp: None }], TOKEN)[0];
        assert_eq!(ways.tcp.why.as_deref(), Some("it does not listen"));
    }

    /// Eight bytes come, but those of another program.
    fn strangers_are_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stranger = rt::spawn("stranger", move || {
            listener.accept().unwrap().0.write_all(b"SSH-2.0-other").unwrap();
        });
        let reached = by_tcp(address, TOKEN);
        stranger.unwrap().join().unwrap();
        assert_eq!(reached, Err("another process answers there".to_owned()));
    }

    #[test]
    fn another_process_at_the_port_is_not_believed() {
        strangers_are_known();
        assert!(caught(Fault::StrangerBelieved, strangers_are_known));
    }
}
