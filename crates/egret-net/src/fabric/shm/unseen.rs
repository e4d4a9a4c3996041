//! Connections that rest, and by which something may have come unseen.
//!
//! An end that begins to rest passes no fence over processes, so a look behind the next one is owed
//! to it. That fence may have [missed](super::bell) a peer, so it is owed another look a
//! [nap](NAP) later.

use super::bell::Bells;
use super::machine::NAP;
use crate::rt::Instant;

/// The places of those that rest and are owed a look.
#[derive(Debug)]
pub(super) struct Unseen {
    /// Since the last fence over processes.
    unfenced: Vec<usize>,
    /// Behind such a fence, and when the other look is due.
    doubted: Vec<usize>,
    due: Option<Instant>,
}

impl Unseen {
    pub(super) const fn new() -> Self {
        Self { unfenced: Vec::new(), doubted: Vec::new(), due: None }
    }

    /// The connection at this place rests.
    pub(super) fn rests(&mut self, at: usize) {
        self.unfenced.push(at);
    }

    /// It rests no more.
    pub(super) fn forget(&mut self, at: usize) {
        self.unfenced.retain(|resting| *resting != at);
        self.doubted.retain(|resting| *resting != at);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &usize> {
        self.unfenced.iter().chain(&self.doubted)
    }

    /// Those that are to be looked at now, behind a fence with which the bells are like this.
    pub(super) fn behind_fence(&mut self, bells: Bells, now: Instant) -> Vec<usize> {
        let mut owed = self.unfenced.clone();
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            owed.append(&mut self.doubted);
        }
        match bells {
            Bells::Sure => self.unfenced.clear(),
            Bells::Likely if self.due.is_none() && !self.unfenced.is_empty() => {
                self.due = Some(now + NAP);
                self.doubted.append(&mut self.unfenced);
            }
            // Behind the next fence once more.
            Bells::Likely | Bells::Doubtful => {}
        }
        owed
    }
}
