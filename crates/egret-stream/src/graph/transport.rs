//! Graphs over a connection.

use egret_net::buf::Buf;
use egret_net::rt::{Deadline, GivenBack};
use egret_net::vi::{self, Descriptor, Handed, Segment, Ticket, Vi};

use super::error::GraphError;
use super::graph::Graph;
use super::object::Object;

/// Whether a graph is looked at before it is used.
///
/// ```
/// use egret_stream::graph::GraphTrust;
///
/// assert_eq!(GraphTrust::default(), GraphTrust::Checked);
/// ```
///
/// [`Graph::from_handed`](super::Graph::from_handed) takes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GraphTrust {
    /// Every object is looked at once.
    #[default]
    Checked,
    /// The graph is believed, if it is the very buffer of a process that cooperates, for that runs the
    /// same program; any other is checked. What is wrong with it then shows at use, as an object
    /// that is not found: what an access checks is enough for memory to stay safe.
    SameProcessImage,
}

impl<Root: Object> Graph<Root> {
    /// Sends the graph as one message, gathered from where it lies, and waits until that is done.
    ///
    /// # Errors
    ///
    /// [`GraphError::Dangling`] if a reference leads to an object that was removed, and
    /// [`GraphError::Transfer`].
    pub fn send(&self, vi: &Vi, tag: u64, deadline: impl Into<Deadline>) -> Result<(), GraphError> {
        self.check_before_sending()?;
        let head = self.head();
        Ok(vi.send_pieces(&self.pieces(&head), Self::kind(), tag, deadline)?)
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
    ) -> Result<(Self, u64), GraphError> {
        let (words, tag) = vi.recv_of(Self::kind(), bytes_max as u64, deadline)?;
        let graph = Self::from_words(words).map_err(|refused| refused.why)?;
        Ok((graph, tag))
    }

    /// The graph as a send that can be posted.
    ///
    /// # Errors
    ///
    /// [`GraphError::Dangling`] if a reference leads to an object that was removed, with the graph.
    pub fn into_descriptor(self) -> Result<Descriptor, GivenBack<Box<Self>, GraphError>> {
        match self.check_before_sending() {
            Ok(()) => Ok(Descriptor::new(self.into_segment()).of_kind(Self::kind())),
            Err(why) => Err(GivenBack { why, what: Box::new(self) }),
        }
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
    /// If the graph was not posted, or a reference leads to an object that was removed
    /// ([`GraphError::Dangling`]); with the memory of the graph.
    pub fn hand_over(self, vi: &Vi, tag: u64) -> Result<Ticket, GivenBack<Segment, GraphError>> {
        if let Err(why) = self.check_before_sending() {
            return Err(GivenBack { why, what: self.into_segment() });
        }
        let posted = match self.into_segment().into_buf() {
            Ok(buf) => vi.hand_over_of(buf, Self::kind(), tag),
            Err(segment) => {
                vi.post_send(Descriptor::new(segment).with_tag(tag).of_kind(Self::kind()))
            }
        };
        posted.map_err(|refused| {
            let memory = refused.what.into_segments().next();
            let what = memory.expect("a descriptor of one segment was posted");
            GivenBack { why: GraphError::NotPosted(refused.why), what }
        })
    }

    /// The graph that was handed over on `vi`, to be used where it is.
    ///
    /// # Errors
    ///
    /// If it is refused; with what came.
    pub fn from_handed(
        handed: Handed,
        vi: &Vi,
        trust: GraphTrust,
    ) -> Result<Self, GivenBack<Handed, GraphError>> {
        let is_image =
            vi.trust() == vi::Trust::Cooperating && trust == GraphTrust::SameProcessImage;
        let buffer = |refused: GivenBack<Buf, GraphError>| {
            let what = Handed::Buffer(refused.what);
            GivenBack { why: refused.why, what }
        };
        match handed {
            Handed::Buffer(buf) => Self::from_buf_if(buf, !is_image).map_err(buffer),
            Handed::Copy(bytes) => {
                Self::from_bytes(&bytes).map_err(|why| GivenBack { why, what: Handed::Copy(bytes) })
            }
        }
    }
}
