//! How far two processes trust each other with their memory.

use std::fmt;

/// Whether peers may write memory of each other.
///
/// A nic [asks](super::NicOptions::trust) for a level, and each of its
/// connections [has](super::Vi::trust) one: the higher one only if both sides
/// ask for it and each has convinced itself that it may. What the levels mean
/// for memory stands in `docs/trust.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Trust {
    /// Each process writes its own memory alone, and the kernel sees to it. A
    /// peer may do what it likes.
    #[default]
    Isolated,
    /// Two processes of one user that run the same executable file and have the
    /// same [`Secret`](super::Secret) may write each other's memory. Either may
    /// die at any instruction; neither is guarded against malice of the other.
    Cooperating,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Isolated => "isolated",
            Self::Cooperating => "cooperating",
        })
    }
}

/// Why a connection is isolated although this side asked to cooperate; from
/// [`Vi::why_isolated`](super::Vi::why_isolated). What one side found is told to
/// the other, so it reads the same from both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WhyIsolated {
    /// The other side asks for [`Trust::Isolated`].
    PeerDidNotAsk,
    /// Different files, as the kernel says. A file that was built again is
    /// another, and a copy is.
    OtherExecutable,
    /// The kernel does not say: `/proc` is missing or of another process
    /// namespace, a process may not be looked at, or it has ended.
    ExecutableUnknown,
    /// One of them talks with another process than the other is: a process in between, or each is in
    /// a process namespace of its own.
    OtherProcess,
}

impl fmt::Display for WhyIsolated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerDidNotAsk => "the peer did not ask to cooperate",
            Self::OtherExecutable => "the two sides run different executable files",
            Self::ExecutableUnknown => "which executable file a side runs cannot be told",
            Self::OtherProcess => "a side talks with another process than the other is",
        })
    }
}

/// What came of two sides' wishes, from one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgreedTrust {
    /// With the reason if this side asked for more.
    Isolated(Option<WhyIsolated>),
    Cooperating,
}

impl AgreedTrust {
    pub(crate) const fn trust(self) -> Trust {
        match self {
            Self::Isolated(_) => Trust::Isolated,
            Self::Cooperating => Trust::Cooperating,
        }
    }

    pub(crate) const fn why_isolated(self) -> Option<WhyIsolated> {
        match self {
            Self::Isolated(why) => why,
            Self::Cooperating => None,
        }
    }
}
