//! How two processes become cooperating ones. No I/O but questions to the
//! kernel about the peer.
//!
//! Both have proven the secret by the time that they decide. Each checks the other for itself,
//! and a connection is cooperating only if both said yes.
//!
//! ```text
//!   connecting                                            listening
//!   same executable? yes, these two, or no ──▶ asks too? same executable? these two?
//!   both said yes ◀─────────────────────────── cooperating, or why not
//! ```

use super::fault::{Fault, planted};
use super::peer::Peer;
use crate::fabric::greet;
use crate::fabric::hub::bytes::{Malformed, NOT_AGREED, REASON, Reader};
use crate::vi::{Agreed, PublicKey, Trust, WhyIsolated};

/// What a nic asks for, and what must be proven to it.
#[derive(Debug, Clone)]
pub(crate) struct Stance {
    pub trust: Trust,
    pub greet: greet::Stance,
}

/// What a connecting side says of cooperating.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing: it does not ask.
    Nothing,
    /// It would, and believes that these are the two.
    Yes(Processes),
    /// It asks, and found this.
    No(WhyIsolated),
}

/// What a listening side says to a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict(pub Agreed);

/// The two processes of a connection, as the kernel numbers them. Somebody in between would be one
/// of them on each side.
///
/// That the kernel gives a number away again does no harm here. A side's own number is nobody
/// else's while it runs. The other's is what the kernel noted for this very socket, and it is named
/// or compared only after [`Peer::check_executable`] has looked at that process by its pidfd and
/// found that it had not ended: it had the number then. If it ends behind that, whoever gets the
/// number has no end of this socket, and nothing is looked up by the number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Processes {
    pub connecting: i32,
    pub listening: i32,
}

impl Stance {
    /// The key that the nic proves.
    pub(in crate::fabric) const fn key(&self) -> PublicKey {
        self.greet.key()
    }

    /// What the connecting side wishes, which has found `peer` listening.
    pub(super) fn wish(&self, peer: &Peer) -> Wish {
        match (self.trust, peer.check_executable()) {
            (Trust::Isolated, _) => Wish::Nothing,
            (_, Err(why)) => Wish::No(why),
            (_, Ok(())) => Wish::Yes(Processes { connecting: own_pid(), listening: peer.pid }),
        }
    }

    /// The listening side has heard what `peer` wishes, and decides.
    pub(super) fn settle(&self, wish: Wish, peer: &Peer) -> Agreed {
        let why = match (self.trust, wish) {
            (Trust::Isolated, _) => return Agreed::Isolated(None),
            (_, Wish::Nothing) => WhyIsolated::PeerDidNotAsk,
            (_, Wish::No(why)) => why,
            (_, Wish::Yes(theirs)) => match peer.check_executable() {
                Err(why) => why,
                Ok(()) if is_between(theirs, peer) => return Agreed::Cooperating,
                Ok(()) => WhyIsolated::OtherProcess,
            },
        };
        Agreed::Isolated(Some(why))
    }
}

fn is_between(theirs: Processes, peer: &Peer) -> bool {
    theirs == Processes { connecting: peer.pid, listening: own_pid() }
        || planted(Fault::ProcessesForgotten)
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

impl Verdict {
    /// What a visitor is told that wished this, where this side has `agreed`.
    pub(super) fn of(agreed: Agreed, wish: Wish) -> Self {
        Self(match agreed {
            _ if wish == Wish::Nothing => Agreed::Isolated(None),
            Agreed::Isolated(None) => Agreed::Isolated(Some(WhyIsolated::PeerDidNotAsk)),
            agreed => agreed,
        })
    }

    /// What the connecting side makes of it: the level holds if both said yes.
    pub(super) fn conclude(self, wish: Wish) -> Result<Agreed, Malformed> {
        let said_yes = matches!(wish, Wish::Yes(_));
        if said_yes && planted(Fault::VerdictIgnored) {
            return Ok(Agreed::Cooperating);
        }
        match (self.0, wish) {
            (Agreed::Cooperating, _) if said_yes => Ok(self.0),
            (Agreed::Isolated(None), Wish::Nothing) => Ok(self.0),
            (Agreed::Isolated(Some(_)), Wish::Yes(_) | Wish::No(_)) => Ok(self.0),
            _ => Err(Malformed(NOT_AGREED)),
        }
    }

    pub(super) fn push(self, bytes: &mut Vec<u8>) {
        bytes.push(number(self.0));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        read_agreed(reader).map(Self)
    }
}

impl Wish {
    pub(super) fn push(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Nothing => bytes.push(number(Agreed::Isolated(None))),
            Self::Yes(Processes { connecting, listening }) => {
                bytes.push(number(Agreed::Cooperating));
                bytes.extend(connecting.to_le_bytes());
                bytes.extend(listening.to_le_bytes());
            }
            Self::No(why) => bytes.push(number(Agreed::Isolated(Some(why)))),
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match read_agreed(reader)? {
            Agreed::Isolated(None) => Self::Nothing,
            Agreed::Isolated(Some(why)) => Self::No(why),
            Agreed::Cooperating => {
                let connecting = i32::from_le_bytes(reader.array()?);
                let listening = i32::from_le_bytes(reader.array()?);
                Self::Yes(Processes { connecting, listening })
            }
        })
    }
}

fn read_agreed(reader: &mut Reader<'_>) -> Result<Agreed, Malformed> {
    let number = reader.u8()?;
    let found = LEVELS.iter().find(|(known, _)| *known == number);
    found.map(|(_, agreed)| *agreed).ok_or(Malformed(REASON))
}

fn number(agreed: Agreed) -> u8 {
    let found = LEVELS.iter().find(|(_, known)| *known == agreed);
    found.expect("every level has its number").0
}

const LEVELS: [(u8, Agreed); 6] = [
    (0, Agreed::Isolated(None)),
    (1, Agreed::Cooperating),
    (2, Agreed::Isolated(Some(WhyIsolated::PeerDidNotAsk))),
    (3, Agreed::Isolated(Some(WhyIsolated::OtherExecutable))),
    (4, Agreed::Isolated(Some(WhyIsolated::ExecutableUnknown))),
    (5, Agreed::Isolated(Some(WhyIsolated::OtherProcess))),
];
