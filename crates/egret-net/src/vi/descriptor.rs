//! What is posted: memory, a tag, and perhaps a type.

use std::fmt;

use super::completion::Note;
use super::landing::PlacementReceive;
use super::{Segment, ViError};
use crate::buf::{Buf, Kind, Plain, Shared, Typed};

/// The memory of one transfer, gathered from or scattered into its segments in
/// order, with a 64-bit tag.
///
/// Posting takes it, the completion returns it, and it may be posted again. It
/// is a place of its own in memory, so that what moves from hand to hand is a
/// pointer: a descriptor that is [made](Self::new) costs an allocation, one that
/// is posted again costs none.
///
/// ```
/// use egret_net::buf::Pool;
/// use egret_net::vi::Descriptor;
///
/// let pool = Pool::new(4096, 8)?;
/// let header = pool.take_typed::<u32>(4)?;
/// let body = vec![1.0_f64; 100];
/// let descriptor = Descriptor::new(header).and(body).with_tag(7);
/// assert_eq!(descriptor.len(), 16 + 800);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct Descriptor(pub(super) Box<DescriptorBody>);

#[derive(Default)]
pub(super) struct DescriptorBody {
    pub(super) first: Option<Segment>,
    pub(super) rest: Vec<Segment>,
    tag: u64,
    kind: Option<Kind>,
    note: Note,
    /// If it is a receive that asks where larger messages go.
    pub(super) spot: Option<Box<PlacementReceive>>,
}

impl Descriptor {
    /// A descriptor of one segment.
    #[must_use]
    pub fn new(segment: impl Into<Segment>) -> Self {
        Self(Box::new(DescriptorBody { first: Some(segment.into()), ..DescriptorBody::default() }))
    }

    /// A descriptor of no bytes: a message that is only its tag, or a receive
    /// for such.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// A receive into memory made on arrival, of at most `max` bytes, which
    /// completes as a `Vec<u8>`.
    #[must_use]
    pub fn fresh(max: u64) -> Self {
        Self::new(Segment::fresh::<u8>(max))
    }

    /// A receive for a buffer that is [handed over](super::Vi::hand_over), or for
    /// any other message of at most `max` bytes, which is copied into fresh memory.
    /// The receive completes as [`Handed`](super::Handed).
    #[must_use]
    pub fn handed(max: u64) -> Self {
        Self::new(Segment::handed(max))
    }

    /// Memory that also says what its elements are: a send carries the
    /// fingerprint, and a receive takes nothing else.
    #[must_use]
    pub fn typed<T: Plain>(typed: Typed<T>) -> Self {
        Self::new(typed).of_kind(T::kind())
    }

    /// Like [`typed`](Self::typed), for memory that is shared.
    #[must_use]
    pub fn shared<T: Plain>(shared: Shared<T>) -> Self {
        Self::new(shared).of_kind(T::kind())
    }

    /// Adds a segment at the end.
    #[must_use]
    pub fn and(mut self, segment: impl Into<Segment>) -> Self {
        match self.0.first {
            None => self.0.first = Some(segment.into()),
            Some(_) => self.0.rest.push(segment.into()),
        }
        self
    }

    /// Sets the tag that goes with a send.
    #[must_use]
    pub fn with_tag(mut self, tag: u64) -> Self {
        self.0.tag = tag;
        self
    }

    /// Says what the elements are.
    #[must_use]
    pub fn of_kind(mut self, kind: Kind) -> Self {
        self.0.kind = Some(kind);
        self
    }

    /// Sets the tag of a descriptor that is to be posted again.
    #[inline]
    pub fn set_tag(&mut self, tag: u64) {
        self.0.tag = tag;
    }

    /// Sets the length of its first segment, if that is a pool buffer of at least this
    /// capacity: a send that is posted again may be of another length. `false` if it
    /// is not, and then nothing has changed.
    #[inline]
    #[must_use = "it says whether the length is set"]
    pub fn resize(&mut self, len: usize) -> bool {
        self.0.first.as_mut().is_some_and(|first| first.resize(len))
    }

    /// The tag.
    #[must_use]
    #[inline]
    pub fn tag(&self) -> u64 {
        self.0.tag
    }

    /// What the elements are, if it says so.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> Option<&Kind> {
        self.0.kind.as_ref()
    }

    /// Bytes of all segments together.
    #[must_use]
    #[inline]
    pub fn len(&self) -> u64 {
        let first = self.0.first.as_ref().map_or(0, Segment::len);
        self.0.rest.iter().fold(first, |sum, segment| sum.saturating_add(segment.len()))
    }

    /// Whether there is nothing to transfer but the tag.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The segments in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.0.first.iter().chain(&self.0.rest)
    }

    fn segments_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.0.first.iter_mut().chain(&mut self.0.rest)
    }

    /// The bytes of its first segment, which most have alone, to be looked at
    /// where they are.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.0.first.as_ref().map_or(&[], Segment::bytes)
    }

    /// The same bytes, to be written before it is posted again. `None` if others
    /// may be reading them.
    #[inline]
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.0.first.as_mut().and_then(Segment::bytes_mut)
    }

    /// How many segments there are.
    #[must_use]
    #[inline]
    pub fn segment_count(&self) -> usize {
        usize::from(self.0.first.is_some()) + self.0.rest.len()
    }

    /// Takes it apart.
    pub fn into_segments(self) -> impl Iterator<Item = Segment> {
        self.0.first.into_iter().chain(self.0.rest)
    }

    /// Copies bytes from `offset` on into `to`; a fabric's view of a send.
    ///
    /// # Panics
    ///
    /// If `offset + to.len()` is past the end.
    pub fn gather(&self, offset: u64, to: &mut [u8]) {
        let mut skip = offset;
        let mut to = to;
        for segment in self.segments() {
            let bytes = segment.bytes();
            let Some(bytes) = tail(bytes, &mut skip) else { continue };
            let n = bytes.len().min(to.len());
            let (now, later) = to.split_at_mut(n);
            now.copy_from_slice(&bytes[..n]);
            to = later;
        }
        assert!(to.is_empty(), "{} bytes past the end of the descriptor", to.len());
    }

    /// Copies `from` to `offset`; a fabric's view of a receive.
    ///
    /// # Panics
    ///
    /// As [`fill`](Self::fill).
    pub fn scatter(&mut self, offset: u64, from: &[u8]) {
        let mut from = from;
        self.fill(offset, from.len(), |bytes| {
            let (now, later) = from.split_at(bytes.len());
            bytes.copy_from_slice(now);
            from = later;
        });
    }

    /// Has `len` bytes from `offset` on filled, piece by piece in order; a
    /// fabric's view of a receive.
    ///
    /// # Panics
    ///
    /// If that is past the end, or a segment is not writable: a fabric calls
    /// [`make`](Self::make) first, and posting refuses what cannot be written.
    pub fn fill(&mut self, offset: u64, len: usize, mut fill: impl FnMut(&mut [u8])) {
        let (mut skip, mut left) = (offset, len);
        for segment in self.segments_mut() {
            let bytes = segment.bytes_mut().expect("posting refused what cannot be written");
            let Some(bytes) = tail_mut(bytes, &mut skip) else { continue };
            let now = bytes.len().min(left);
            fill(&mut bytes[..now]);
            left -= now;
            if left == 0 {
                return;
            }
        }
        assert!(left == 0, "{left} bytes past the end of the descriptor");
    }

    /// Makes the memory for a message that is about to arrive, if that is made then:
    /// fresh memory, or what its [`DirectPlacement`](super::DirectPlacement) supplies.
    ///
    /// # Errors
    ///
    /// What both sides are to be told, if the landing has none.
    #[inline]
    pub fn make(&mut self, len: usize, tag: u64) -> Result<(), ViError> {
        if let Some(first) = &mut self.0.first {
            first.make(len);
        }
        if self.0.spot.is_some() { self.ask(len, tag) } else { Ok(()) }
    }

    /// The memory has another owner now.
    #[cold]
    pub(super) fn give_away(&mut self) {
        self.note_mut().set_gives(false);
        (self.0.first, self.0.rest) = (None, Vec::new());
    }

    /// Takes out the pool buffer, if that is all it is; a fabric's way to hand it
    /// over.
    pub(crate) fn take_buf(&mut self) -> Option<Buf> {
        let only = self.0.first.take_if(|_| self.0.rest.is_empty())?;
        only.into_buf().map_err(|other| self.0.first = Some(other)).ok()
    }

    /// Takes out the vector, if that is all it is.
    pub(super) fn take_vec<T: Plain>(&mut self) -> Option<Vec<T>> {
        let only = self.0.first.take_if(|_| self.0.rest.is_empty())?;
        only.into_vec().map_err(|other| self.0.first = Some(other)).ok()
    }

    /// Puts back what was taken out.
    pub(crate) fn put_buf(&mut self, buf: Buf) {
        self.0.first = Some(buf.into());
    }

    /// Takes a buffer that was handed over as its memory, if it is a receive for
    /// that.
    pub(crate) fn land(&mut self, buf: Buf) -> Result<(), Buf> {
        match &mut self.0.first {
            Some(first) if first.is_for_handed() => {
                *first = buf.into();
                Ok(())
            }
            _ => Err(buf),
        }
    }

    /// Its only segment, if it has one.
    #[inline]
    pub(super) fn only(&mut self) -> Option<&mut Segment> {
        if self.0.rest.is_empty() { self.0.first.as_mut() } else { None }
    }

    /// Whether it asks for memory made on arrival.
    pub(super) fn has_fresh(&self) -> bool {
        self.segments().any(Segment::is_fresh)
    }

    /// Whether everything can be received into.
    pub(super) fn is_writable(&mut self) -> bool {
        self.segments_mut().all(|segment| segment.is_fresh() || segment.bytes_mut().is_some())
    }

    /// As eager messages are, for tests.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn mark_eager(&mut self) {
        self.note_mut().set_eager();
    }

    /// What is noted of it from the post to the completion.
    #[inline]
    pub(super) fn note(&self) -> &Note {
        &self.0.note
    }

    #[inline]
    pub(super) fn note_mut(&mut self) -> &mut Note {
        &mut self.0.note
    }
}

impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Descriptor")
            .field("segments", &self.segments().collect::<Vec<_>>())
            .field("tag", &self.0.tag)
            .field("kind", &self.0.kind)
            .finish()
    }
}

/// What of `bytes` lies behind `skip`, which shrinks by what was passed over.
fn tail<'a>(bytes: &'a [u8], skip: &mut u64) -> Option<&'a [u8]> {
    let start = passed(bytes.len(), skip)?;
    Some(&bytes[start..])
}

fn tail_mut<'a>(bytes: &'a mut [u8], skip: &mut u64) -> Option<&'a mut [u8]> {
    let start = passed(bytes.len(), skip)?;
    Some(&mut bytes[start..])
}

fn passed(len: usize, skip: &mut u64) -> Option<usize> {
    match usize::try_from(*skip) {
        Ok(start) if start < len => {
            *skip = 0;
            Some(start)
        }
        _ => {
            *skip -= len as u64;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn heap_memory_comes_back_as_what_it_was() {
        let arc: Arc<[u16]> = Arc::from([1, 2, 3]);
        let descriptor = Descriptor::new(vec![1.5_f32; 3]).and(Arc::clone(&arc));
        let mut segments = descriptor.into_segments();
        let first = segments.next().unwrap().into_vec::<u32>().unwrap_err();
        assert_eq!(first.into_vec::<f32>().unwrap(), [1.5; 3]);
        assert_eq!(segments.next().unwrap().into_arc::<u16>().unwrap(), arc);
    }

    #[test]
    fn shared_memory_is_not_writable_and_fresh_memory_is() {
        assert!(!Descriptor::new(Arc::<[u8]>::from([1])).is_writable());
        assert!(Descriptor::new(vec![0_u8]).is_writable());
        let mut fresh = Descriptor::fresh(10);
        assert!(fresh.is_writable() && fresh.len() == 10);
        fresh.make(3, 0).unwrap();
        assert_eq!(fresh.len(), 3);
    }

    #[test]
    #[should_panic(expected = "past the end")]
    fn gathering_past_the_end_is_a_programming_error() {
        Descriptor::new(vec![0_u8; 4]).gather(2, &mut [0; 3]);
    }

    proptest! {
        #[test]
        fn gather_undoes_scatter(
            lens in proptest::collection::vec(0..9_usize, 1..17),
            from in 0..80_usize,
            len in 0..80_usize,
        ) {
            let total: usize = lens.iter().sum();
            let (from, len) = (from.min(total), len.min(total - from.min(total)));
            let mut descriptor = Descriptor::empty();
            for len in &lens {
                descriptor = descriptor.and(vec![0xee_u8; *len]);
            }
            let sent: Vec<u8> = (0..len).map(|i| u8::try_from(i).unwrap()).collect();
            descriptor.scatter(from as u64, &sent);
            let mut whole = vec![0; total];
            descriptor.gather(0, &mut whole);
            prop_assert_eq!(&whole[from..from + len], &sent);
            prop_assert!(whole[..from].iter().chain(&whole[from + len..]).all(|b| *b == 0xee));
        }
    }
}
