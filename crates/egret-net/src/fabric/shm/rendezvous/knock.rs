//! The connecting side of a rendezvous.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use thiserror::Error;

use super::control::{Control, ControlError};
use super::greeting::{Acceptance, Greeting, Handles, Terms, hear};
use super::name::{NameTooLong, address};
use super::peer::{OtherUser, Peer};
use super::socket::{Packet, Received, Sent, Socket};
use super::trust::{Stance, Wish};
use crate::fabric::greet::{Caller, GreetError, News, Wanted};
use crate::fabric::hub::bytes::{LENGTH, Malformed};
use crate::vi::{Agreed, Hello, PublicKey};

/// A greeting that is under way.
#[derive(Debug)]
pub(crate) struct Knock {
    control: Control,
    caller: Box<Caller>,
    wish: Wish,
}

/// Whom to call for what.
#[derive(Debug, Clone)]
pub(crate) struct Call<'a> {
    /// The name of the nic.
    pub to: &'a str,
    /// The key that it must prove, if one is known.
    pub key: Option<PublicKey>,
    pub hello: Hello,
    /// The name of this side's nic.
    pub host: &'a str,
    pub terms: Terms,
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
    /// The key that it has proven.
    pub key: PublicKey,
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
    /// The greeting came to nothing.
    #[error(transparent)]
    Greeting(#[from] GreetError),
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

impl From<Malformed> for KnockError {
    fn from(why: Malformed) -> Self {
        Self::Greeting(why.into())
    }
}

impl Knock {
    /// Knocks at the acceptor of this user's nic.
    ///
    /// # Errors
    ///
    /// If the acceptor is another user's, or the system has no socket to give.
    pub(crate) fn start(call: Call<'_>, stance: &Stance) -> Result<Started, KnockError> {
        Self::start_at(&address(call.to)?, call, stance)
    }

    pub(super) fn start_at(
        address: &SocketAddrUnix,
        call: Call<'_>,
        stance: &Stance,
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
        Self::begin(Control::new(socket, peer), call, stance)
    }

    /// Greets whoever is at the other end.
    pub(super) fn begin(
        control: Control,
        call: Call<'_>,
        stance: &Stance,
    ) -> Result<Started, KnockError> {
        let Call { key, hello, host, terms, .. } = call;
        let wish = stance.wish(control.peer());
        let greeting = Greeting { host: host.to_owned(), terms, wish };
        let wanted = Wanted { hello, terms: greeting.encode(), key, is_plain: true };
        let caller = Box::new(Caller::new(stance.greet.clone(), wanted));
        let mut knock = Self { control, caller, wish };
        Ok(match knock.say(&[])? {
            Sent::Sent => Started::Knocking(knock),
            Sent::Full => Started::Busy,
        })
    }

    /// Says the step that is outgoing, beside these descriptors.
    fn say(&mut self, fds: &[BorrowedFd<'_>]) -> Result<Sent, KnockError> {
        let step = self.caller.outgoing();
        let len = step.len();
        match self.control.send_bytes(step, fds) {
            Ok(Sent::Full) => Ok(Sent::Full),
            // Gone already, maybe with an answer: it is polled for as ever.
            Ok(Sent::Sent) | Err(ControlError::PeerGone { .. }) => {
                self.caller.sent(len);
                Ok(Sent::Sent)
            }
            Err(ControlError::System { errno, .. }) => Err(errno.into()),
            Err(ControlError::Protocol { .. }) => unreachable!("nothing was received"),
        }
    }

    /// The answer, if it is there. What is asked for goes beside these descriptors.
    ///
    /// # Errors
    ///
    /// If it is a refusal, or none will come.
    pub(crate) fn poll(mut self, handles: Handles<BorrowedFd<'_>>) -> Result<Answered, KnockError> {
        loop {
            if !self.caller.outgoing().is_empty() {
                match self.say(&handles.borrowed())? {
                    Sent::Sent => {}
                    Sent::Full => return Ok(Answered::NotYet(self)),
                }
            }
            let mut packet = match self.control.receive()? {
                Received::Nothing => return Ok(Answered::NotYet(self)),
                Received::Gone => return Err(KnockError::Gone { pid: self.control.peer().pid }),
                Received::Packet(packet) => packet,
            };
            match self.hear(&packet)? {
                News::Nothing => {}
                News::Hello { .. } => return Err(Malformed(LENGTH).into()),
                News::Welcome { terms } => return self.accepted(&terms, &mut packet),
            }
        }
    }

    fn hear(&mut self, packet: &Packet) -> Result<News, KnockError> {
        let news = hear(&mut *self.caller, packet);
        if news.is_err() && !self.caller.outgoing().is_empty() {
            // Why it is not talked to; it may be gone.
            _ = self.say(&[]);
        }
        Ok(news?)
    }

    fn accepted(mut self, terms: &[u8], packet: &mut Packet) -> Result<Answered, KnockError> {
        let (Acceptance { terms, verdict }, handles) = Acceptance::decode(terms, packet)?;
        let agreed = verdict.conclude(self.wish)?;
        let session = self.caller.take_session();
        let key = session.ok_or(Malformed(LENGTH))?.known.key;
        let accepted = Accepted { terms, agreed, key, handles, control: self.control };
        Ok(Answered::Accepted(accepted))
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
