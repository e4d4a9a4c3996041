//! A handshake over a socket, from either side.

use thiserror::Error;

use super::socket::{TcpSocket, is_later};
use crate::fabric::handshake::{
    Handshake, HandshakeError, HandshakeEvent, HandshakeSide, STEP_MAX,
};

/// Why a handshake over a socket has failed.
#[derive(Debug, Error)]
pub(super) enum HandshakeFailure {
    #[error("it closed the connection during the handshake")]
    Left,
    #[error("it sent more than belongs to a handshake")]
    Unfit,
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
}

/// Sends and reads steps until there is an event: it, and the bytes behind the step.
pub(super) fn advance_handshake(
    socket: &TcpSocket,
    handshake: &mut Handshake<impl HandshakeSide>,
) -> Result<Option<(HandshakeEvent, Vec<u8>)>, HandshakeFailure> {
    let mut bytes = [0; STEP_MAX];
    say(socket, handshake)?;
    loop {
        let n = match socket.recv(&mut bytes) {
            Ok(0) => return Err(HandshakeFailure::Left),
            Ok(n) => n,
            Err(why) => return if is_later(why) { Ok(None) } else { Err(HandshakeFailure::Left) },
        };
        let mut rest = &bytes[..n];
        while !rest.is_empty() {
            let fed = handshake.feed(rest);
            let said = say(socket, handshake);
            let fed = fed?;
            said?;
            rest = &rest[fed.consumed..];
            if fed.news != HandshakeEvent::Nothing {
                return Ok(Some((fed.news, rest.to_vec())));
            }
            if fed.consumed == 0 {
                return Err(HandshakeFailure::Unfit);
            }
        }
    }
}

/// A few bytes, which a kernel that has just made the connection takes.
pub(super) fn say(
    socket: &TcpSocket,
    handshake: &mut Handshake<impl HandshakeSide>,
) -> Result<(), HandshakeFailure> {
    let outgoing = handshake.outgoing();
    let len = outgoing.len();
    if len > 0 {
        let sent = socket.send(outgoing).map_err(|_| HandshakeFailure::Left)?;
        handshake.sent(sent);
        if sent < len {
            return Err(HandshakeFailure::Left);
        }
    }
    Ok(())
}
