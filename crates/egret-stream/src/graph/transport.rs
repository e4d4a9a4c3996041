//! Graphs over a connection.

use egret_net::buf::Buf;
use egret_net::rt::Deadline;
use egret_net::vi::{self, Descriptor, Handed, PostError, Segment, Ticket, TransferError, Vi};
use thiserror::Error;

use super::graph::Graph;
use super::object::Object;
use super::refusal::{Refusal, Refused};

/// Whether a graph is looked at before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Every object is looked at once.
    #[default]
    Checked,
    /// It is believed, if it is the very buffer of a process that cooperates, for that runs the
    /// same program; any other is checked. What is wrong with it then shows at use, as an object
    /// that is not found: what an access checks is enough for memory to stay safe.
    SameProcessImage,
}

/// Why no graph was received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecvError {
    /// No message came, or it was of another type.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// What came is no such graph.
    #[error("what came is no such graph: {0}")]
    Refused(#[from] Refusal),
}

impl<Root: Object> Graph<Root> {
    /// Sends the graph as one message, gathered from where it lies, and waits until that is done.
    ///
    /// # Errors
    ///
    /// See [`TransferError`].
    pub fn send(
        &self,
        vi: &Vi,
        tag: u64,
        deadline: impl Into<Deadline>,
    ) -> Result<(), TransferError> {
        let head = self.head();
        vi.send_pieces(&self.pieces(&head), Self::kind(), tag, deadline)
    }

    /// Waits for the next message, which is to be a graph of at most `bytes_max`; gives it with
    /// its tag. It lands in memory of its own and is checked there: what the sender does with
    /// its memory afterwards changes nothing.
    ///
    /// # Errors
    ///
    /// If none came, or it is refused.
    pub fn recv(
        vi: &Vi,
        bytes_max: usize,
        deadline: impl Into<Deadline>,
    ) -> Result<(Self, u64), RecvError> {
        let (words, tag) = vi.recv_of(Self::kind(), bytes_max as u64, deadline)?;
        let graph = Self::from_words(words).map_err(|refused| refused.refusal)?;
        Ok((graph, tag))
    }

    /// The graph as a send that can be posted.
    #[must_use]
    pub fn into_descriptor(self) -> Descriptor {
        Descriptor::new(self.into_segment()).of_kind(Self::kind())
    }

    /// A receive for a graph of at most `bytes_max`, to be posted; its completion becomes a
    /// graph by [`from_words`](Self::from_words) of its vector.
    #[must_use]
    pub fn descriptor(bytes_max: usize) -> Descriptor {
        Descriptor::new(Segment::fresh::<u64>(bytes_max as u64)).of_kind(Self::kind())
    }

    /// Gives the graph away, in constant time if it lies in a buffer that can be
    /// [handed over](Vi::hand_over) and the peer cooperates; else it is copied. The peer posts
    /// [`Descriptor::handed`], of this [kind](Self::kind) or of none, and has it by
    /// [`from_handed`](Self::from_handed).
    ///
    /// # Errors
    ///
    /// If it was not posted; the memory of the graph is inside.
    pub fn hand_over(self, vi: &Vi, tag: u64) -> Result<Ticket, PostError> {
        match self.into_segment().into_buf() {
            Ok(buf) => vi.hand_over_of(buf, Self::kind(), tag),
            Err(segment) => {
                vi.post_send(Descriptor::new(segment).with_tag(tag).of_kind(Self::kind()))
            }
        }
    }

    /// The graph that was handed over on `vi`, to be used where it is.
    ///
    /// # Errors
    ///
    /// If it is refused; with what came.
    pub fn from_handed(handed: Handed, vi: &Vi, trust: Trust) -> Result<Self, Refused<Handed>> {
        let is_image = vi.trust() == vi::Trust::Cooperating && trust == Trust::SameProcessImage;
        let buffer = |refused: Refused<Buf>| {
            let memory = Handed::Buffer(refused.memory);
            Refused { refusal: refused.refusal, memory }
        };
        match handed {
            Handed::Buffer(buf) => Self::from_buf_if(buf, !is_image).map_err(buffer),
            Handed::Copy(bytes) => Self::from_bytes(&bytes)
                .map_err(|refusal| Refused { refusal, memory: Handed::Copy(bytes) }),
        }
    }
}
