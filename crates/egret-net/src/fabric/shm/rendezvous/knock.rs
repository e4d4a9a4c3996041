//! The connecting side of a rendezvous.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use thiserror::Error;

use super::answer::Answer;
use super::control::{Control, ControlError};
use super::greeting::{Greeting, Handles, Terms};
use super::name::{NameTooLong, address};
use super::peer::{OtherUser, Peer};
use super::socket::{Received, Sent, Socket};
use super::trust::{Asking, conclude};
use crate::fabric::hub::Refusal;
use crate::fabric::hub::bytes::NOT_AGREED;
use crate::vi::{Agreed, HelloError, Nonce, Proof, Secret};

/// A greeting that was sent and is not answered yet.
#[derive(Debug)]
pub(crate) struct Knock {
    control: Control,
    /// If the greeting asks to cooperate.
    asking: Option<Asking>,
}

/// What came of knocking.
#[derive(Debug)]
pub(crate) enum Started {
    /// The greeting is under way.
    Knocking(Knock),
    /// This user has no nic of that name, now.
    Nobody,
    /// So many knock there that one more must wait and try again.
    Busy,
}

/// Whether a greeting is answered.
#[derive(Debug)]
pub(crate) enum Answered {
    /// Not yet.
    NotYet(Knock),
    /// With a connection.
    Accepted(Accepted),
}

/// A connection, from the connecting side.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// What the other end says of its side.
    pub terms: Terms,
    /// How far the two trust each other.
    pub agreed: Agreed,
    /// Its descriptors, unchecked.
    pub handles: Handles<OwnedFd>,
    /// The socket, to be kept.
    pub control: Control,
}

/// Why knocking failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum KnockError {
    /// No socket can be called so.
    #[error(transparent)]
    Name(#[from] NameTooLong),
    /// Someone else took the name.
    #[error("the host's name is taken by another user: {0}")]
    OtherUser(#[from] OtherUser),
    /// The other side says no.
    #[error("refused: {0}")]
    Refused(Refusal),
    /// The answer was not understood.
    #[error("the answer was not understood: {0}")]
    Hello(#[from] HelloError),
    /// The other side left without an answer. The next to have its name may
    /// have one.
    #[error("process {pid} left without an answer")]
    Gone {
        /// The process.
        pid: i32,
    },
    /// The operating system would not.
    #[error("no socket to knock with: {0}")]
    System(#[from] Errno),
}

impl Knock {
    /// Knocks at the acceptor of this user's nic `host`, which must prove that it
    /// has the `secret` if the greeting asks to cooperate.
    ///
    /// # Errors
    ///
    /// If the acceptor is another user's, or the system has no socket to give.
    pub(crate) fn start(
        host: &str,
        greeting: &Greeting,
        handles: Handles<BorrowedFd<'_>>,
        secret: &Secret,
    ) -> Result<Started, KnockError> {
        let fds = handles.borrowed();
        let mut started = Self::start_at(&address(host)?, &greeting.encode(), &fds)?;
        if let Started::Knocking(knock) = &mut started {
            knock.asking = greeting.asks.map(|nonce| Asking::new(nonce, secret));
        }
        Ok(started)
    }

    pub(super) fn start_at(
        address: &SocketAddrUnix,
        greeting: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Started, KnockError> {
        let fd = seqpacket()?;
        match connect(&fd, address) {
            Ok(()) => {}
            Err(Errno::CONNREFUSED | Errno::NOENT) => return Ok(Started::Nobody),
            Err(Errno::AGAIN) => return Ok(Started::Busy),
            Err(errno) => return Err(errno.into()),
        }
        let socket = Socket::new(fd);
        let peer = Peer::of(&socket)?;
        peer.check_user()?;
        let knock = Self { control: Control::new(socket, peer), asking: None };
        match knock.control.send_bytes(greeting, fds) {
            // Gone already, maybe with an answer: it is polled for as ever.
            Ok(Sent::Sent) | Err(ControlError::PeerGone { .. }) => Ok(Started::Knocking(knock)),
            Ok(Sent::Full) => Ok(Started::Busy),
            Err(ControlError::System { errno, .. }) => Err(errno.into()),
            Err(ControlError::Protocol { .. }) => unreachable!("nothing was received"),
        }
    }

    /// The answer, if it is there.
    ///
    /// # Errors
    ///
    /// If it is a refusal, or none will come.
    pub(crate) fn poll(mut self) -> Result<Answered, KnockError> {
        loop {
            let packet = match self.control.receive()? {
                Received::Nothing => return Ok(Answered::NotYet(self)),
                Received::Gone => return Err(KnockError::Gone { pid: self.control.peer().pid }),
                Received::Packet(packet) => packet,
            };
            match Answer::decode(packet)? {
                Answer::Refuse(refusal) => return Err(KnockError::Refused(refusal)),
                // Once: a second one is an error.
                Answer::Challenge(nonce, proof) => self.respond(nonce, &proof)?,
                Answer::Accept(terms, told, handles) => {
                    let agreed = conclude(self.asking.as_ref(), told).map_err(HelloError::from)?;
                    let accepted = Accepted { terms, agreed, handles, control: self.control };
                    return Ok(Answered::Accepted(accepted));
                }
            }
        }
    }

    fn respond(&mut self, nonce: Nonce, proof: &Proof) -> Result<(), KnockError> {
        let asking = self.asking.as_mut().ok_or(HelloError::Malformed(NOT_AGREED))?;
        let response = asking.respond(self.control.peer(), nonce, proof);
        let response = response.map_err(HelloError::from)?.encode();
        match self.control.send_bytes(&response, &[]) {
            // Gone already, maybe with an answer.
            Ok(Sent::Sent) | Err(ControlError::PeerGone { .. }) => Ok(()),
            // It has not read the greeting that it challenges.
            Ok(Sent::Full) => Err(HelloError::Malformed(NOT_AGREED).into()),
            Err(ControlError::System { errno, .. }) => Err(errno.into()),
            Err(ControlError::Protocol { .. }) => unreachable!("nothing was received"),
        }
    }

    /// Readable when [`poll`](Self::poll) has something to tell.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.control.fd()
    }
}

/// A socket that never blocks and does not outlive an `exec`.
pub(super) fn seqpacket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

#[cfg(test)]
impl Knock {
    /// One whose greeting was sent by other means, and asks to cooperate.
    pub(super) fn adopt_asking(control: Control, nonce: Nonce, secret: &Secret) -> Self {
        Self { control, asking: Some(Asking::new(nonce, secret)) }
    }

    /// The same for one that asks for nothing.
    pub(super) const fn adopt(control: Control) -> Self {
        Self { control, asking: None }
    }
}
