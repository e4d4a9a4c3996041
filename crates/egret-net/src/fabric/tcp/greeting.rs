//! A greeting over a socket, from either side.

use thiserror::Error;

use super::socket::{Socket, is_later};
use crate::fabric::greet::{GreetError, Greeter, News, STEP_MAX, Speaker};

/// Why a greeting came to nothing.
#[derive(Debug, Error)]
pub(super) enum Lost {
    #[error("it left, or does not listen")]
    Left,
    #[error("it said more than a greeting")]
    Unfit,
    #[error(transparent)]
    Greeting(#[from] GreetError),
}

/// Says and hears until there is news: it, and what came behind it.
pub(super) fn greet(
    socket: &Socket,
    greeter: &mut Greeter<impl Speaker>,
) -> Result<Option<(News, Vec<u8>)>, Lost> {
    let mut bytes = [0; STEP_MAX];
    say(socket, greeter)?;
    loop {
        let n = match socket.recv(&mut bytes) {
            Ok(0) => return Err(Lost::Left),
            Ok(n) => n,
            Err(why) => return if is_later(why) { Ok(None) } else { Err(Lost::Left) },
        };
        let mut rest = &bytes[..n];
        while !rest.is_empty() {
            let fed = greeter.feed(rest);
            let said = say(socket, greeter);
            let fed = fed?;
            said?;
            rest = &rest[fed.consumed..];
            if fed.news != News::Nothing {
                return Ok(Some((fed.news, rest.to_vec())));
            }
            if fed.consumed == 0 {
                return Err(Lost::Unfit);
            }
        }
    }
}

/// A few bytes, which a kernel that has just made the connection takes.
pub(super) fn say(socket: &Socket, greeter: &mut Greeter<impl Speaker>) -> Result<(), Lost> {
    let outgoing = greeter.outgoing();
    let len = outgoing.len();
    if len > 0 {
        let sent = socket.send(outgoing).map_err(|_| Lost::Left)?;
        greeter.sent(sent);
        if sent < len {
            return Err(Lost::Left);
        }
    }
    Ok(())
}
