//! What carries the frames of a link: two connections of a reliable fabric, one for
//! what is short and one for what may be large, or one connection of a lossy fabric and
//! the window that makes three lanes of it.

use std::sync::Arc;

use egret_net::vi::{Descriptor, Landing, RemoteSlice, Trust, Vi, ViError, ViId};

use super::windowed::Windowed;
use super::{Fate, Lane, LinkCounters};

/// What carries the frames of a link.
#[derive(Debug)]
pub(crate) enum Carrier {
    Direct(Box<Direct>),
    Windowed(Box<Windowed>),
}

impl Carrier {
    /// Hands a frame to the fabric, or gives it back if that has no room or is broken.
    #[inline]
    pub(crate) fn post(&mut self, lane: Lane, frame: Descriptor) -> Result<(), Descriptor> {
        match self {
            Self::Direct(direct) => direct.post(lane, frame),
            Self::Windowed(windowed) => {
                windowed.send(lane, frame);
                Ok(())
            }
        }
    }

    /// Fills `memory` from the peer's; `false` if that cannot be asked for now.
    pub(crate) fn read(&mut self, memory: Descriptor, from: RemoteSlice) -> bool {
        self.access(|bulk| bulk.post_read(memory, from).is_ok())
    }

    /// Copies `memory` to the peer's; `false` if that cannot be asked for now.
    pub(crate) fn write(&mut self, memory: Descriptor, to: RemoteSlice) -> bool {
        self.access(|bulk| bulk.post_write(memory, to).is_ok())
    }

    fn access(&mut self, post: impl FnOnce(&Vi) -> bool) -> bool {
        let Self::Direct(direct) = self else { return false };
        let posted = post(&direct.bulk);
        direct.under_way[wire(Lane::Bulk)] += u32::from(posted);
        posted
    }

    /// A send of a reliable connection has come back.
    #[inline]
    pub(crate) fn sent(&mut self, lane: Lane) {
        if let Self::Direct(direct) = self {
            direct.sent(lane);
        }
    }

    /// Receives into `receive` again, if that is what it was.
    #[inline]
    pub(crate) fn receive(&self, lane: Lane, receive: Descriptor) {
        if let Self::Direct(direct) = self {
            direct.receive(lane, receive);
        }
    }

    /// Whether frames are with the fabric that will come back.
    pub(crate) fn is_quiet(&self) -> bool {
        match self {
            Self::Direct(direct) => direct.under_way == [0; 2],
            Self::Windowed(_) => true,
        }
    }

    /// Whether the peer has all that was posted.
    pub(crate) fn is_through(&self) -> bool {
        match self {
            Self::Direct(_) => self.is_quiet(),
            Self::Windowed(windowed) => windowed.is_through(),
        }
    }

    /// Why its connection is broken, if that took nothing when something was to be sent:
    /// nothing may complete any more that would say so.
    #[inline]
    pub(crate) fn broken(&self) -> Option<ViError> {
        match self {
            Self::Direct(direct) if direct.refused => direct.error(),
            Self::Windowed(windowed) if windowed.is_refused() => windowed.vi().error(),
            _ => None,
        }
    }

    /// Its connections: that of the talk lane first.
    pub(crate) fn ids(&self) -> Vec<ViId> {
        match self {
            Self::Direct(direct) => vec![direct.talk.id(), direct.bulk.id()],
            Self::Windowed(windowed) => vec![windowed.vi().id()],
        }
    }

    /// How far its sides trust each other.
    pub(crate) fn trust(&self) -> Trust {
        match self {
            Self::Direct(direct) if direct.talk.trust() == Trust::Isolated => Trust::Isolated,
            Self::Direct(direct) => direct.bulk.trust(),
            Self::Windowed(windowed) => windowed.vi().trust(),
        }
    }

    /// Adds what it has done so far.
    pub(crate) fn count(&self, counters: &mut LinkCounters) {
        let mut add = |vi: &Vi| {
            let done = vi.counters();
            counters.sent += done.sent;
            counters.received += done.received;
        };
        match self {
            Self::Direct(direct) => [&direct.talk, &direct.bulk].into_iter().for_each(add),
            Self::Windowed(windowed) => {
                add(windowed.vi());
                let (repeated, older) = windowed.counts();
                counters.repeated += repeated;
                counters.older += older;
            }
        }
    }

    /// Closes it. What a window holds comes back here, the rest by its completions.
    pub(crate) fn close(&mut self) -> Vec<(Descriptor, Fate)> {
        match self {
            Self::Direct(direct) => {
                direct.close();
                Vec::new()
            }
            Self::Windowed(windowed) => {
                windowed.vi().disconnect();
                windowed.end()
            }
        }
    }
}

/// The connections of a link over a reliable fabric.
#[derive(Debug)]
pub(crate) struct Direct {
    talk: Vi,
    bulk: Vi,
    /// Sends under way on each.
    under_way: [u32; 2],
    depth: u32,
    /// Whether a frame was not taken.
    refused: bool,
}

impl Direct {
    pub(crate) fn new(talk: Vi, bulk: Vi) -> Self {
        let depth = talk.nic().limits().queue_depth;
        Self { talk, bulk, under_way: [0; 2], depth, refused: false }
    }

    #[inline]
    fn vi(&self, lane: Lane) -> &Vi {
        match lane {
            Lane::Control | Lane::Talk => &self.talk,
            Lane::Bulk => &self.bulk,
        }
    }

    #[inline]
    fn post(&mut self, lane: Lane, frame: Descriptor) -> Result<(), Descriptor> {
        let under_way = self.under_way[wire(lane)];
        if under_way >= self.depth {
            return Err(frame);
        }
        match self.vi(lane).post_send(frame) {
            Ok(_) => {
                self.under_way[wire(lane)] = under_way + 1;
                Ok(())
            }
            Err(refused) => {
                self.refused = true;
                Err(refused.descriptor)
            }
        }
    }

    #[cold]
    fn error(&self) -> Option<ViError> {
        self.talk.error().or_else(|| self.bulk.error())
    }

    #[inline]
    fn sent(&mut self, lane: Lane) {
        self.under_way[wire(lane)] -= 1;
    }

    /// What is broken needs no receive.
    #[inline]
    fn receive(&self, lane: Lane, receive: Descriptor) {
        drop(self.vi(lane).post_recv(receive));
    }

    fn close(&self) {
        self.talk.disconnect();
        self.bulk.disconnect();
    }
}

/// Posts what a connection receives into. A connection that is broken already says so by
/// what completes.
pub(crate) fn post_receives(vi: &Vi, count: u32, largest: u64, landing: &Arc<dyn Landing>) {
    for _ in 0..count {
        let own = vec![0_u8; OWN_BYTES];
        let receive = Descriptor::landing(own, largest, Arc::clone(landing));
        drop(vi.post_recv(receive));
    }
}

const fn wire(lane: Lane) -> usize {
    match lane {
        Lane::Control | Lane::Talk => 0,
        Lane::Bulk => 1,
    }
}

/// Bytes that a receive holds without asking for memory: the words of a message, and a
/// short payload.
pub(crate) const OWN_BYTES: usize = 256;
