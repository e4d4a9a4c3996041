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

use super::super::fault::{self, Fault, planted};
use super::peer::PeerProcess;
use crate::fabric::common::bytes::{ByteReader, Malformed, NOT_AGREED, REASON};
use crate::fabric::handshake;
use crate::vi::{AgreedTrust, PublicKey, Trust, WhyIsolated};

/// The trust that a nic asks for, and the credentials of its handshakes.
#[derive(Debug, Clone)]
pub(in super::super) struct ShmRequirements {
    pub trust: Trust,
    pub handshake: handshake::Credentials,
}

/// Whether a connecting side asks to cooperate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum CooperationRequest {
    /// The connecting side does not ask.
    Nothing,
    /// The connecting side asks, and takes these for the two processes.
    Yes(ProcessPair),
    /// The connecting side asks, and its own check failed.
    No(WhyIsolated),
}

/// The answer of a listening side to such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct CooperationReply(pub AgreedTrust);

/// The two processes of a connection, as the kernel numbers them. A process in between would be one
/// of them on each side.
///
/// That the kernel gives a number away again does no harm here. A side's own number is nobody
/// else's while it runs. The other's is what the kernel noted for this very socket, and it is named
/// or compared only after [`PeerProcess::check_executable`] has looked at that process by its pidfd and
/// found that it had not ended: it had the number then. If it ends behind that, the process that gets the
/// number has no end of this socket, and nothing is looked up by the number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct ProcessPair {
    pub connecting: i32,
    pub listening: i32,
}

impl ShmRequirements {
    /// The key that the nic proves.
    pub(in super::super) const fn key(&self) -> PublicKey {
        self.handshake.key()
    }

    /// What the connecting side wishes, which has found `peer` listening.
    pub(in super::super) fn wish(&self, peer: &PeerProcess) -> CooperationRequest {
        match (self.trust, peer.check_executable()) {
            (Trust::Isolated, _) => CooperationRequest::Nothing,
            (_, Err(why)) => CooperationRequest::No(why),
            (_, Ok(())) => {
                CooperationRequest::Yes(ProcessPair { connecting: own_pid(), listening: peer.pid })
            }
        }
    }

    /// The listening side has heard what `peer` wishes, and decides.
    pub(in super::super) fn settle(
        &self,
        wish: CooperationRequest,
        peer: &PeerProcess,
    ) -> AgreedTrust {
        let why = match (self.trust, wish) {
            (Trust::Isolated, _) => return AgreedTrust::Isolated(None),
            (_, CooperationRequest::Nothing) => WhyIsolated::PeerDidNotAsk,
            (_, CooperationRequest::No(why)) => why,
            (_, CooperationRequest::Yes(theirs)) => match peer.check_executable() {
                Err(why) => why,
                Ok(()) if is_between(theirs, peer) => return AgreedTrust::Cooperating,
                Ok(()) => WhyIsolated::OtherProcess,
            },
        };
        AgreedTrust::Isolated(Some(why))
    }
}

fn is_between(theirs: ProcessPair, peer: &PeerProcess) -> bool {
    theirs == ProcessPair { connecting: peer.pid, listening: own_pid() }
        || planted(Fault::ProcessesForgotten)
}

fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_pid()
}

impl CooperationReply {
    /// The reply to a peer with this request, where this side has `agreed`.
    pub(in super::super) fn of(agreed: AgreedTrust, wish: CooperationRequest) -> Self {
        Self(match agreed {
            _ if wish == CooperationRequest::Nothing => AgreedTrust::Isolated(None),
            AgreedTrust::Isolated(None) => AgreedTrust::Isolated(Some(WhyIsolated::PeerDidNotAsk)),
            agreed => agreed,
        })
    }

    /// What the connecting side makes of it: the level holds if both said yes.
    pub(in super::super) fn conclude(
        self,
        wish: CooperationRequest,
    ) -> Result<AgreedTrust, Malformed> {
        let said_yes = matches!(wish, CooperationRequest::Yes(_));
        let agreed = fault::agreed(self.0, said_yes);
        match (agreed, wish) {
            (AgreedTrust::Cooperating, _) if said_yes => Ok(agreed),
            (AgreedTrust::Isolated(None), CooperationRequest::Nothing) => Ok(agreed),
            (
                AgreedTrust::Isolated(Some(_)),
                CooperationRequest::Yes(_) | CooperationRequest::No(_),
            ) => Ok(agreed),
            _ => Err(Malformed(NOT_AGREED)),
        }
    }

    pub(in super::super) fn push(self, bytes: &mut Vec<u8>) {
        bytes.push(number(self.0));
    }

    pub(in super::super) fn read(reader: &mut ByteReader<'_>) -> Result<Self, Malformed> {
        read_agreed(reader).map(Self)
    }
}

impl CooperationRequest {
    pub(in super::super) fn push(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Nothing => bytes.push(number(AgreedTrust::Isolated(None))),
            Self::Yes(ProcessPair { connecting, listening }) => {
                bytes.push(number(AgreedTrust::Cooperating));
                bytes.extend(connecting.to_le_bytes());
                bytes.extend(listening.to_le_bytes());
            }
            Self::No(why) => bytes.push(number(AgreedTrust::Isolated(Some(why)))),
        }
    }

    pub(in super::super) fn read(reader: &mut ByteReader<'_>) -> Result<Self, Malformed> {
        Ok(match read_agreed(reader)? {
            AgreedTrust::Isolated(None) => Self::Nothing,
            AgreedTrust::Isolated(Some(why)) => Self::No(why),
            AgreedTrust::Cooperating => {
                let connecting = i32::from_le_bytes(reader.array()?);
                let listening = i32::from_le_bytes(reader.array()?);
                Self::Yes(ProcessPair { connecting, listening })
            }
        })
    }
}

fn read_agreed(reader: &mut ByteReader<'_>) -> Result<AgreedTrust, Malformed> {
    let number = reader.u8()?;
    let found = LEVELS.iter().find(|(known, _)| *known == number);
    found.map(|(_, agreed)| *agreed).ok_or(Malformed(REASON))
}

fn number(agreed: AgreedTrust) -> u8 {
    let found = LEVELS.iter().find(|(_, known)| *known == agreed);
    found.expect("every level has its number").0
}

const LEVELS: [(u8, AgreedTrust); 6] = [
    (0, AgreedTrust::Isolated(None)),
    (1, AgreedTrust::Cooperating),
    (2, AgreedTrust::Isolated(Some(WhyIsolated::PeerDidNotAsk))),
    (3, AgreedTrust::Isolated(Some(WhyIsolated::OtherExecutable))),
    (4, AgreedTrust::Isolated(Some(WhyIsolated::ExecutableUnknown))),
    (5, AgreedTrust::Isolated(Some(WhyIsolated::OtherProcess))),
];
