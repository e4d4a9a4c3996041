//! Whether two processes become cooperating ones. No I/O but questions to the
//! kernel about the peer.
//!
//! Each side checks for itself, and a connection is cooperating only if both
//! said yes. Who has the secret shows it last: a listening side that the
//! greeting and the kernel have convinced, then a connecting side that has seen
//! that proof.
//!
//! ```text
//!   connecting                                            listening
//!   asks, nonce ─────────────────────────────▶ asks too? same executable?
//!   same executable? proof right? ◀──────────────────── nonce, proof
//!   yes, proof, or why not ──────────────────▶ proof right?
//!   both said yes ◀─────────────────────────── cooperating, or why not
//! ```

use super::fault::{Fault, planted};
use super::peer::Peer;
use super::socket::Packet;
use crate::fabric::hub::bytes::{Malformed, NOT_AGREED, REASON, Reader};
use crate::vi::{Agreed, Challenge, HASH_BYTES, Nonce, Proof, Secret, Side, Trust, WhyIsolated};

/// What a nic asks for, and what must be proven to it.
#[derive(Debug, Clone)]
pub(crate) struct Stance {
    pub trust: Trust,
    pub secret: Secret,
}

#[cfg(test)]
impl Default for Stance {
    /// Of a nic without further options.
    fn default() -> Self {
        Self { trust: Trust::default(), secret: Secret::none() }
    }
}

/// What a listening side makes of a greeting.
#[derive(Debug)]
pub(super) enum Heard {
    /// Nothing more is asked.
    Settled(Agreed),
    /// The visitor must prove that it has the secret.
    Challenged(Challenge),
}

/// The connecting side of a connection that is to be cooperating.
#[derive(Debug)]
pub(super) struct Asking {
    nonce: Nonce,
    secret: Secret,
    /// What it said when it was challenged.
    said: Option<Response>,
}

/// What a connecting side says to a challenge.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(super) enum Response {
    Yes(Proof),
    No(WhyIsolated),
}

impl Stance {
    /// What goes into a greeting: a nonce if this side asks.
    pub(crate) fn ask(&self) -> Option<Nonce> {
        (self.trust == Trust::Cooperating).then(nonce)
    }

    /// The listening side looks at what a greeting asks for, and at who sent it.
    pub(super) fn hear(&self, asked: Option<Nonce>, peer: &Peer) -> Heard {
        match (self.trust, asked) {
            (Trust::Isolated, _) => Heard::Settled(Agreed::Isolated(None)),
            (_, None) => Heard::Settled(Agreed::Isolated(Some(WhyIsolated::PeerDidNotAsk))),
            (_, Some(connecting)) => match peer.check_executable() {
                Err(why) => Heard::Settled(Agreed::Isolated(Some(why))),
                Ok(()) => {
                    let context = context(peer, Side::Listening);
                    Heard::Challenged(Challenge { connecting, listening: nonce(), context })
                }
            },
        }
    }

    /// The listening side's own proof.
    pub(super) fn show(&self, challenge: &Challenge) -> Proof {
        self.secret.prove(challenge, shown_by(Side::Listening))
    }

    /// The listening side has the response, and decides.
    pub(super) fn settle(&self, challenge: &Challenge, response: Response) -> Agreed {
        let why = match response {
            Response::No(why) => why,
            Response::Yes(_) if planted(Fault::SecretUnchecked) => return Agreed::Cooperating,
            Response::Yes(proof) => {
                if self.secret.verify(challenge, shown_by(Side::Connecting), &proof) {
                    return Agreed::Cooperating;
                }
                WhyIsolated::OtherSecret
            }
        };
        Agreed::Isolated(Some(why))
    }
}

impl Asking {
    pub(super) fn new(nonce: Nonce, secret: &Secret) -> Self {
        Self { nonce, secret: secret.clone(), said: None }
    }

    /// Checks whoever challenges, and has an answer for it once.
    pub(super) fn respond(
        &mut self,
        peer: &Peer,
        listening: Nonce,
        proof: &Proof,
    ) -> Result<Response, Malformed> {
        if self.said.is_some() {
            return Err(Malformed(NOT_AGREED));
        }
        let context = context(peer, Side::Connecting);
        let challenge = Challenge { connecting: self.nonce, listening, context };
        let response = if let Err(why) = peer.check_executable() {
            Response::No(why)
        } else if !self.secret.verify(&challenge, shown_by(Side::Listening), proof) {
            Response::No(WhyIsolated::OtherSecret)
        } else {
            Response::Yes(self.secret.prove(&challenge, shown_by(Side::Connecting)))
        };
        self.said = Some(response);
        Ok(response)
    }
}

/// What the connecting side makes of the answer: the level holds if both said yes.
pub(super) fn conclude(asking: Option<&Asking>, told: Agreed) -> Result<Agreed, Malformed> {
    let said_yes = matches!(asking, Some(Asking { said: Some(Response::Yes(_)), .. }));
    if said_yes && planted(Fault::VerdictIgnored) {
        return Ok(Agreed::Cooperating);
    }
    match (told, asking) {
        (Agreed::Cooperating, _) if said_yes => Ok(told),
        (Agreed::Isolated(Some(_)), Some(_)) | (Agreed::Isolated(None), None) => Ok(told),
        _ => Err(Malformed(NOT_AGREED)),
    }
}

/// What a visitor is told, that asked or did not, where this side has `agreed`.
pub(super) fn told(agreed: Agreed, asked: bool) -> Agreed {
    match agreed {
        _ if !asked => Agreed::Isolated(None),
        Agreed::Isolated(None) => Agreed::Isolated(Some(WhyIsolated::PeerDidNotAsk)),
        agreed => agreed,
    }
}

/// The two processes, as the kernel numbers them. So a proof that somebody in
/// between passes on is of no use.
fn context(peer: &Peer, own: Side) -> Vec<u8> {
    if planted(Fault::ProcessesForgotten) {
        return Vec::new();
    }
    let own_pid = rustix::process::getpid().as_raw_pid();
    let (connecting, listening) = match own {
        Side::Connecting => (own_pid, peer.pid),
        Side::Listening => (peer.pid, own_pid),
    };
    [&b"shm"[..], &connecting.to_le_bytes(), &listening.to_le_bytes()].concat()
}

fn nonce() -> Nonce {
    if planted(Fault::NonceRepeated) { Nonce([7; HASH_BYTES]) } else { Nonce::new() }
}

fn shown_by(side: Side) -> Side {
    if planted(Fault::RoleForgotten) { Side::Connecting } else { side }
}

impl Response {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Yes(Proof(proof)) => [&[number(Agreed::Cooperating)][..], &proof].concat(),
            Self::No(why) => vec![number(Agreed::Isolated(Some(why)))],
        }
    }

    pub(super) fn decode(packet: &Packet) -> Result<Self, Malformed> {
        let mut reader = Reader::new(&packet.bytes);
        let response = match read_agreed(&mut reader)? {
            Agreed::Cooperating => Self::Yes(Proof(reader.array()?)),
            Agreed::Isolated(Some(why)) => Self::No(why),
            Agreed::Isolated(None) => return Err(Malformed(REASON)),
        };
        reader.end()?;
        Ok(response)
    }
}

pub(super) fn push_agreed(bytes: &mut Vec<u8>, agreed: Agreed) {
    bytes.push(number(agreed));
}

pub(super) fn read_agreed(reader: &mut Reader<'_>) -> Result<Agreed, Malformed> {
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
    (5, Agreed::Isolated(Some(WhyIsolated::OtherSecret))),
];
