//! Receives that have memory of their own for small messages, and ask for more when
//! a larger one begins.
//!
//! Repeated names: `Fault`, one beside each piece of code with planted faults.

use std::fmt;
use std::sync::Arc;

use super::contained::contained;
use super::{Completion, Descriptor, Segment, ViError};
use crate::buf::Buf;
use crate::fault::planted;

/// Where larger messages land: the poster of receives supplies the memory, once the
/// length of a message and its tag are known.
///
/// A fabric asks while it holds its locks. The answer must not call the nic, nor
/// anything of it or of another (connections, completion queues), nor wait; it may take a buffer of
/// a pool. Length and tag are what the peer claims: its bytes may never come.
/// [`Descriptor::landing`](super::Descriptor::landing) has an example.
pub trait DirectPlacement: Send + Sync + fmt::Debug {
    /// Memory for the first bytes of a message of `len` bytes. What it leaves, if its
    /// length is less, goes to the receive's own memory and must fit there.
    ///
    /// # Errors
    ///
    /// Why the message is not taken. A reliable connection fails with it, at both
    /// ends, and on an unreliable one the receive does: with [`ViError::NotTaken`].
    ///
    /// # Panics
    ///
    /// A panic is contained where the fabric asks, and the message is not taken for that
    /// reason, as if this had returned an error; the peer is not told what the panic said.
    fn land(&self, len: u64, tag: u64) -> Result<Buf, &'static str>;
}

/// What makes a descriptor a receive that asks.
pub(super) struct PlacementReceive {
    max: u64,
    landing: Arc<dyn DirectPlacement>,
    /// Whether its first segment is what the landing supplied; its own is the second.
    landed: bool,
}

impl Descriptor {
    /// A receive with memory of its `own`, for messages that fit there, and a
    /// `landing` that is asked, when a larger one of at most `max` bytes begins,
    /// where its first bytes go; the rest goes to the own memory. No function is asked
    /// about a message that fits the own memory. A buffer that is
    /// [handed over](super::Vi::hand_over) is copied there, like any other message.
    ///
    /// The completion says whether something [landed](Completion::landed). Posted
    /// again it is the receive it was: what landed and was not
    /// [taken](Self::take_landed) is dropped, also if the post is refused.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use egret_net::buf::{Buf, Pool};
    /// use egret_net::fabric::sim::Sim;
    /// use egret_net::rt::Deadline;
    /// use egret_net::vi::{Address, Descriptor, DirectPlacement, ViOptions};
    ///
    /// /// The last eight bytes of a message are not data.
    /// #[derive(Debug)]
    /// struct Data(Pool);
    ///
    /// impl DirectPlacement for Data {
    ///     fn land(&self, len: u64, _tag: u64) -> Result<Buf, &'static str> {
    ///         let len = usize::try_from(len - 8).map_err(|_| "more than there is memory")?;
    ///         self.0.take(len).map_err(|_| "no buffer is free")
    ///     }
    /// }
    ///
    /// let sim = Sim::new(1);
    /// let (a, b) = (sim.nic("a"), sim.nic("b"));
    /// let listener = b.listen("data", 0, &ViOptions::default())?;
    /// let connecting =
    ///     a.connect(&Address::new("b", "data", 0), &ViOptions::default(), Deadline::DEFAULT);
    /// let there = listener.wait_accept(Deadline::DEFAULT)?;
    /// let here = a.block_on(connecting)?;
    ///
    /// let landing = Arc::new(Data(Pool::new(4096, 2)?));
    /// there.post_recv(Descriptor::landing(vec![0_u8; 64], 4096, landing))?;
    /// here.post_send(Descriptor::new(vec![7_u8; 4000]).and(vec![1_u64]))?;
    ///
    /// let got = there.recv_queue().wait(Deadline::DEFAULT)?.ok()?;
    /// assert!(got.landed());
    /// assert_eq!((got.bytes(), got.rest()), (&[7; 4000][..], &1_u64.to_le_bytes()[..]));
    /// let mut receive = got.into_descriptor();
    /// let data: Buf = receive.take_landed().expect("it landed");
    /// assert_eq!(data.len(), 4000);
    /// there.post_recv(receive)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn landing(own: impl Into<Segment>, max: u64, landing: Arc<dyn DirectPlacement>) -> Self {
        let mut descriptor = Self::new(own);
        descriptor.0.spot = Some(Box::new(PlacementReceive { max, landing, landed: false }));
        descriptor
    }

    /// Whether its first segment is memory that its landing supplied.
    #[must_use]
    #[inline]
    pub fn is_landed(&self) -> bool {
        self.0.spot.as_ref().is_some_and(|spot| spot.landed)
    }

    /// Takes the buffer that a message landed in. The descriptor is then as it was
    /// posted.
    pub fn take_landed(&mut self) -> Option<Buf> {
        let spot = self.0.spot.as_mut().filter(|spot| spot.landed)?;
        spot.landed = false;
        let own = self.0.rest.pop();
        std::mem::replace(&mut self.0.first, own)?.into_buf().ok()
    }

    /// Whether it would ask a landing.
    pub(crate) fn is_landing(&self) -> bool {
        self.0.spot.is_some()
    }

    /// Bytes of the largest message that may be received into it.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        let posted = self.len();
        let most = if planted(Fault::MostIgnored) { u64::MAX } else { posted };
        self.0.spot.as_ref().map_or(posted, |spot| most.max(spot.max))
    }

    /// Has it be a receive that nothing came for.
    pub(crate) fn unland(&mut self) {
        if !planted(Fault::LandedForgotten) {
            drop(self.take_landed());
        }
    }

    /// Asks where a message that does not fit its own memory goes.
    pub(super) fn ask(&mut self, len: usize, tag: u64) -> Result<(), ViError> {
        let own = self.0.first.as_ref().map_or(0, |own| own.bytes().len());
        let Some(spot) = self.0.spot.as_mut().filter(|spot| !spot.landed) else { return Ok(()) };
        if fits(len, own) {
            return Ok(());
        }
        let not_taken = |why: &'static str| ViError::NotTaken(why.into());
        // Under the fabric's locks, in the middle of a message: a panic ends here.
        let asked = contained(|| spot.landing.land(len as u64, tag));
        let buf = asked.unwrap_or(Err(PANICKED)).map_err(not_taken)?;
        let rest = len.checked_sub(buf.len()).ok_or_else(|| not_taken(LONGER))?;
        if is_more(rest, own) {
            return Err(not_taken(SHORTER));
        }
        spot.landed = true;
        let own = self.0.first.replace(buf.into());
        self.0.rest.extend(own);
        Ok(())
    }
}

/// Whether a message goes to the receive's own memory, and no function is asked.
fn fits(len: usize, own: usize) -> bool {
    len <= own && !planted(Fault::SmallAsked)
}

/// Whether the rest of a message is more than the receive's own memory.
fn is_more(rest: usize, own: usize) -> bool {
    rest > own && !planted(Fault::RestUnchecked)
}

impl Completion {
    /// Whether the message landed in a buffer of the receive's [`DirectPlacement`], which is
    /// its first segment.
    #[must_use]
    #[inline]
    pub fn landed(&self) -> bool {
        self.descriptor().is_landed()
    }

    /// The bytes of a message that landed which did not go to the landing's buffer:
    /// those in the receive's own memory. [`bytes`](Self::bytes) are the others.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        let mut segments = self.descriptor().segments();
        let (Some(buf), Some(own), true) = (segments.next(), segments.next(), self.landed()) else {
            return &[];
        };
        let rest = usize::try_from(self.len.saturating_sub(buf.len())).unwrap_or(usize::MAX);
        &own.bytes()[..rest.min(own.bytes().len())]
    }
}

impl fmt::Debug for PlacementReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "up to {} bytes at {:?}", self.max, self.landing)
    }
}

const PANICKED: &str = "the landing of the receive panicked";
const LONGER: &str = "the memory for it was longer than the message";
const SHORTER: &str = "the memory for it left more than the receive holds";

/// One way to get it wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A landing is asked about messages that fit the receive's own memory.
    SmallAsked,
    /// A landing may supply less than the message needs.
    RestUnchecked,
    /// A message may be longer than the receive says.
    MostIgnored,
    /// A receive that is posted again is not what it was.
    LandedForgotten,
}
