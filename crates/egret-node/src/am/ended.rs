//! Links that end, and whom that is told.

use super::bundle::What;
use super::fault::{Fault, planted};
use crate::link::LinkError;
use crate::links::slots::Key;
use crate::links::state::State;

/// Who is at the other end of a link, for as long as that lives: a host that is linked
/// again is another peer. No two links of a process have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// Of the links, in this process.
    pub(crate) links: u32,
    pub(crate) link: Key,
}

/// A link that is no more, for the [end handler](super::Endpoint::on_end).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ended {
    /// Whose link it was.
    pub peer: Peer,
    /// The peer's host, as it said itself.
    pub host: String,
    /// Which of the peer's lives it was with.
    pub incarnation: u64,
    /// Why it is no more.
    pub why: LinkError,
}

impl State {
    /// An endpoint has something to do with a link: it is told when that ends.
    pub(super) fn meets(&mut self, link: Key, endpoint: Key) {
        if let Some(line) = self.links.get(link) {
            line.am.met.insert(endpoint);
        }
    }

    /// An endpoint is closed, and told of nothing any more.
    pub(super) fn meets_nobody(&mut self, endpoint: Key) {
        for (_, line) in self.links.iter_mut() {
            line.am.met.remove(&endpoint);
        }
    }

    /// Tells all endpoints that had to do with a link that it is no more: behind
    /// everything that came by it.
    pub(super) fn tell_ended(&mut self, link: Key, why: &LinkError) {
        let Some(line) = self.links.get(link) else { return };
        let met = std::mem::take(&mut line.am.met);
        let ended = Ended {
            peer: Peer { links: self.fixed.number, link },
            host: line.peer.clone(),
            incarnation: line.incarnation.unwrap_or_default(),
            why: why.clone(),
        };
        let lost = usize::from(planted(Fault::EndUntold));
        for endpoint in met.into_iter().skip(lost) {
            if planted(Fault::EndTwice) {
                self.enqueue(endpoint, What::Ended(Box::new(ended.clone())));
            }
            self.enqueue(endpoint, What::Ended(Box::new(ended.clone())));
        }
    }
}
