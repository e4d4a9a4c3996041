//! What a harness brings.

use std::fmt;

use super::Meeting;
use crate::vi::Nic;

/// Which side of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Connects.
    Caller,
    /// Listens.
    Answerer,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Caller { "caller" } else { "answerer" })
    }
}

/// What a harness provides for one side.
pub struct Party {
    pub(super) nic: Nic,
    pub(super) peer: String,
    pub(super) role: Role,
    pub(super) meeting: Box<dyn Meeting>,
    pub(super) kill: Option<Box<dyn Fn()>>,
}

impl Party {
    /// A side with its nic, the host of the other side's, and where they meet.
    #[must_use]
    pub fn new(nic: Nic, peer: &str, role: Role, meeting: Box<dyn Meeting>) -> Self {
        Self { nic, peer: peer.to_owned(), role, meeting, kill: None }
    }

    /// Tells a caller how the answerer is killed.
    #[must_use]
    pub fn with_kill(mut self, kill: impl Fn() + 'static) -> Self {
        self.kill = Some(Box::new(kill));
        self
    }
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} on {:?}", self.role, self.nic.host())
    }
}
