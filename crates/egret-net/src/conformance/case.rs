//! Cases, and which of them a fabric runs.

use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use super::check::Outcome;
use super::side::Side;
use super::{
    access, connect, death, eager, gather, hand_over, landing, lanes, levels, messages, pressure,
    queues, remote, slices, teardown, unreliable,
};
use crate::vi::{Limits, Reliability};

/// One thing a fabric must do, at one reliability level.
#[derive(Clone, Copy)]
pub struct Case {
    /// The theme and what is tested, such as `messages::order`.
    pub name: &'static str,
    /// The level its connections have.
    pub level: Reliability,
    /// Whether the answerer is killed in the course of it: its own outcome is
    /// then of no interest, and between processes it has to be started anew.
    pub kills_answerer: bool,
    pub(super) script: Script,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.level)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({self})")
    }
}

/// What is promised by the fabric under test, and how much of it is tried.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Whether unreliable messages may be lost, doubled, overtaken and damaged
    /// right now. If not, all of them must arrive.
    pub lossy: bool,
    /// Bytes of the largest message.
    pub largest: usize,
    /// Messages in the long runs.
    pub messages: u64,
    /// How long anything may take that must happen.
    pub patience: Duration,
    /// How long nothing must happen to believe that it never will.
    pub quiet: Duration,
    /// How soon the death of a peer must be known.
    pub death: Duration,
    /// Whether the harness can kill the answerer.
    pub kills: bool,
    /// Whether the buffers lie in memory that other processes can read.
    pub shareable: bool,
    /// Whether they lie in memory that cooperating processes can write.
    pub cooperating: bool,
}

impl Default for Profile {
    /// A good network and all the time a slow machine needs.
    fn default() -> Self {
        Self {
            lossy: false,
            largest: 64 << 20,
            messages: 1_000,
            patience: Duration::from_secs(30),
            quiet: Duration::from_millis(30),
            death: Duration::from_secs(10),
            kills: true,
            shareable: false,
            cooperating: false,
        }
    }
}

/// The cases for a fabric with these limits, in the order to run them.
#[must_use]
pub fn cases(limits: &Limits, profile: &Profile) -> Vec<Case> {
    let mut cases = Vec::new();
    for Planned { name, at, script } in THEMES.iter().copied().flatten().copied() {
        let kills_answerer = at == At::Kills;
        for level in at.levels(limits, profile) {
            cases.push(Case { name, level, kills_answerer, script });
        }
    }
    cases
}

const THEMES: &[&[Planned]] = &[
    connect::CASES,
    messages::CASES,
    eager::CASES,
    lanes::CASES,
    gather::CASES,
    pressure::CASES,
    levels::CASES,
    unreliable::CASES,
    queues::CASES,
    remote::CASES,
    access::CASES,
    slices::CASES,
    hand_over::CASES,
    landing::CASES,
    teardown::CASES,
    death::CASES,
];

/// What both sides of a case do.
pub(super) type Script = for<'a> fn(&'a Side) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// A case before the fabric's levels are known.
#[derive(Clone, Copy)]
pub(super) struct Planned {
    pub name: &'static str,
    pub at: At,
    pub script: Script,
}

/// Makes the list of a theme: how each case is run, and the function it is.
macro_rules! list {
    ($theme:literal: $($at:ident $name:ident,)+) => {
        pub(super) const CASES: &[$crate::conformance::case::Planned] = &[$(
            $crate::conformance::case::Planned {
                name: concat!($theme, "::", stringify!($name)),
                at: $crate::conformance::case::At::$at,
                script: |side| Box::pin($name(side)),
            },
        )+];
    };
}
pub(super) use list;

/// At which of the levels on offer a case is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// At each.
    Every,
    /// At the strongest.
    Strongest,
    /// At each reliable one.
    Reliable,
    /// At the strongest reliable one.
    Once,
    /// At reliable reception.
    Reception,
    /// At the unreliable one.
    Unreliable,
    /// At the unreliable one, if the link loses nothing.
    Lossless,
    /// As `Once`, if the answerer can be killed.
    Kills,
}

impl At {
    fn levels(self, limits: &Limits, profile: &Profile) -> Vec<Reliability> {
        let mut levels = vec![Reliability::Reception, Reliability::Delivery];
        levels.push(Reliability::Unreliable);
        levels.retain(|level| limits.offers(*level) && self.takes(*level, profile));
        if matches!(self, Self::Strongest | Self::Once | Self::Kills) {
            levels.truncate(1);
        }
        levels
    }

    const fn takes(self, level: Reliability, profile: &Profile) -> bool {
        match self {
            Self::Every | Self::Strongest => true,
            Self::Reliable | Self::Once => level.is_reliable(),
            Self::Reception => matches!(level, Reliability::Reception),
            Self::Unreliable => !level.is_reliable(),
            Self::Lossless => !level.is_reliable() && !profile.lossy,
            Self::Kills => level.is_reliable() && profile.kills,
        }
    }
}
