//! Where a machine listens while it is checked: a port of tcp and one of udp, at the place where a node would listen.

use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};

use egret::fabric::place::ListenAddress;
use egret::rt;
use rustix::event::{PollFd, PollFlags};

use super::message::{ListenPorts, PairToken};
use crate::run::{connection, is_own};
use crate::system::wait_for;

/// Listens at this place, or where a process of `egret run` would be told to; answers until the end of this process.
pub(super) fn listen(place: Option<String>, token: PairToken) -> ListenPorts {
    let place = place.unwrap_or_else(place_here);
    let (tcp, udp) = match ListenAddress::of(&place) {
        Ok(place) => (open_tcp(&place, token), open_udp(&place, token)),
        Err(why) => (Err(why.to_string()), Err(why.to_string())),
    };
    ListenPorts { tcp: tcp.into(), udp: udp.into() }
}

/// Where nodes listen that an outpost starts, if the launcher does not say it.
fn place_here() -> String {
    let said = std::env::var(LISTEN).ok().filter(|place| !place.is_empty());
    let reached_at = || connection()?.1.filter(|address| is_own(address));
    said.or_else(reached_at).unwrap_or_else(|| REACHABLE.to_owned())
}

fn open_tcp(place: &ListenAddress, token: PairToken) -> Result<SocketAddr, String> {
    let open = || -> io::Result<_> {
        let listener = TcpListener::bind(place.bind)?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        rt::spawn("info tcp", move || answer_tcp(&listener, token))?;
        Ok(port)
    };
    opened(open(), place)
}

fn open_udp(place: &ListenAddress, token: PairToken) -> Result<SocketAddr, String> {
    let open = || -> io::Result<_> {
        let socket = UdpSocket::bind(place.bind)?;
        let port = socket.local_addr()?.port();
        rt::spawn("info udp", move || answer_udp(&socket, token))?;
        Ok(port)
    };
    opened(open(), place)
}

fn opened(port: io::Result<u16>, place: &ListenAddress) -> Result<SocketAddr, String> {
    let told = |port| SocketAddr::new(place.told.ip(), port);
    port.map(told).map_err(|why| format!("listening at {}: {why}", place.bind))
}

/// Gives the answer to each process that connects. It fits into the buffer of a new connection.
fn answer_tcp(listener: &TcpListener, token: PairToken) {
    loop {
        wait_for(&mut [PollFd::new(listener, PollFlags::IN)], None);
        match listener.accept() {
            Ok((mut stream, _)) => _ = stream.write_all(&token.answer.to_le_bytes()),
            Err(why) if why.kind() == ErrorKind::WouldBlock => {}
            // As with no descriptor left: the callers have a deadline.
            Err(_) => rt::sleep(LOOK_AGAIN),
        }
    }
}

/// Gives the answer to each datagram that has the question.
fn answer_udp(socket: &UdpSocket, token: PairToken) {
    let mut datagram = [0; 16];
    loop {
        match socket.recv_from(&mut datagram) {
            Ok((8, from)) if datagram[..8] == token.question.to_le_bytes() => {
                let _ = socket.send_to(&token.answer.to_le_bytes(), from);
            }
            Ok(_) => {}
            Err(_) => rt::sleep(LOOK_AGAIN),
        }
    }
}

/// The setting that says where nodes listen.
pub(super) const LISTEN: &str = "EGRET_LISTEN";
/// The place of a machine whose address nothing says.
pub(super) const REACHABLE: &str = "reachable";
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(10);
