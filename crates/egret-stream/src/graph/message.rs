//! A graph as a message, and a message as a graph.

use std::borrow::Cow;
use std::marker::PhantomData;

use bytemuck::cast_slice_mut;
use egret_net::buf::{Block, BlockMemory, Buf, Kind, Ref};
use egret_net::rt::GivenBack;
use egret_net::vi::Segment;

use super::check::Check;
use super::class::GraphClasses;
use super::error::{GraphDefect, GraphError, GraphRefusal};
use super::fault::{Fault, planted};
use super::graph::Graph;
use super::head::{self, GraphHead, HeadLayout};
use super::object::Object;
use super::slot;
use super::store::Store;

impl<Root: Object> Graph<Root> {
    /// The message as one vector.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let head = self.head();
        self.pieces(&head).concat()
    }

    /// The table that stands before the objects in a message; see [`pieces`](Self::pieces).
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let mut head = vec![0; head::bytes(self.store.arenas.len())];
        head::write(&mut head, self.root_ref().to_bits(), &self.store.arenas, HeadLayout::Dense);
        head
    }

    /// The message as the memory that it lies in, to be gathered: `head`, and for each class what
    /// is used of its memory.
    #[must_use]
    pub fn pieces<'a>(&'a self, head: &'a [u8]) -> Vec<&'a [u8]> {
        let bytes = self.store.block.bytes();
        let parts = self.store.arenas.iter().flat_map(|arena| [arena.slots, arena.data]);
        let parts = parts.filter(|part| part.len > 0).map(|part| &bytes[part.range()]);
        std::iter::once(head).chain(parts).collect()
    }

    /// The message as memory that can be posted: that of the graph itself, or, if more than a
    /// quarter of it is not used, a copy of what is. References are not checked; [`check`](Self::check)
    /// does that.
    ///
    /// ```
    /// use egret_stream::graph::Graph;
    ///
    /// let segment = Graph::new(7_u64).into_segment();
    /// let graph = Graph::<u64>::from_bytes(segment.bytes())?;
    /// assert_eq!(*graph.root(), 7);
    /// # Ok::<(), egret_stream::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn into_segment(mut self) -> Segment {
        let (used, end) = (self.byte_len(), self.store.end);
        if used + used / 4 < end && self.buf().is_none() {
            let head = self.head();
            let mut words = vec![0_u64; used.div_ceil(slot::ALIGN)];
            let mut to = cast_slice_mut::<u64, u8>(&mut words);
            for piece in self.pieces(&head) {
                let (now, later) = to.split_at_mut(piece.len());
                now.copy_from_slice(piece);
                to = later;
            }
            return words.into();
        }
        self.seal();
        match self.store.block.into_owner() {
            BlockMemory::Heap(mut words) => {
                words.truncate(end.div_ceil(slot::ALIGN));
                words.into()
            }
            BlockMemory::Pool(mut buf, _) => {
                buf.resize(end);
                buf.into()
            }
            BlockMemory::File(file) => file.as_ref()[..end].to_vec().into(),
        }
    }

    /// The graph whose memory this [was](Self::into_segment), as when it was not sent and comes
    /// back. References to its objects are still right; a buffer has forgotten its
    /// [pool](Self::grow_in). The objects are not looked at: if this is the memory of something
    /// else, they may not be found, and nothing worse.
    ///
    /// ```
    /// use egret_stream::graph::Graph;
    ///
    /// let mut graph = Graph::new(7_u64);
    /// let eight = graph.insert(8_u64);
    /// let graph = Graph::<u64>::take_back(graph.into_segment())?;
    /// assert_eq!(graph[eight], 8);
    /// # Ok::<(), egret_stream::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it cannot be that of such a graph.
    #[doc(hidden)] // For the layers above, which give back what they were given.
    pub fn take_back(memory: Segment) -> Result<Self, GraphError> {
        let owner = match memory.into_vec() {
            Ok(words) => BlockMemory::Heap(words),
            Err(memory) => match memory.into_buf() {
                Ok(buf) if buf.offset_in_region().is_multiple_of(slot::ALIGN) => {
                    BlockMemory::Pool(buf, None)
                }
                Ok(buf) => BlockMemory::Heap(words(buf.bytes())),
                Err(memory) => BlockMemory::Heap(words(memory.bytes())),
            },
        };
        let block = Block::new(owner).expect("it is aligned");
        let mut graph = Self::from_block(block, false).map_err(|refused| refused.0)?;
        graph.store.may_dangle = true; // Whether objects were removed is not known any more.
        Ok(graph)
    }

    /// The message in one piece: the memory of the graph itself, or, if more than a quarter of it
    /// is not used, a copy of what is.
    ///
    /// ```
    /// use egret_stream::graph::Graph;
    ///
    /// let mut graph = Graph::new(7_u64);
    /// let there = Graph::<u64>::from_bytes(&graph.message())?;
    /// assert_eq!(there.root(), graph.root());
    /// # Ok::<(), egret_stream::graph::GraphError>(())
    /// ```
    #[must_use]
    pub fn message(&mut self) -> Cow<'_, [u8]> {
        let (used, end) = (self.byte_len(), self.store.end);
        if used + used / 4 < end {
            return self.to_vec().into();
        }
        self.seal();
        self.store.block.bytes()[..end].into()
    }

    /// Writes the head to its place in the block.
    fn seal(&mut self) {
        let (root, len) = (self.root_ref().to_bits(), self.store.end);
        let bytes = self.store.block.bytes_mut();
        head::write(bytes, root, &self.store.arenas, HeadLayout::AsIs { len });
    }

    /// The graph that these bytes are, of which it gets a copy. All is
    /// [checked](crate::graph#what-is-checked).
    ///
    /// # Errors
    ///
    /// Where the bytes are no such graph, and why.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, GraphError> {
        Self::from_words(words(bytes)).map_err(|refused| refused.why)
    }

    /// The graph that these words are, where they are: as a message was received by
    /// [`Segment::fresh::<u64>`](Segment::fresh).
    ///
    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes), with the words.
    pub fn from_words(words: Vec<u64>) -> Result<Self, GivenBack<Vec<u64>, GraphError>> {
        Self::from_block(Block::on_heap(words), true).map_err(|refused| match *refused {
            (refusal, BlockMemory::Heap(what)) => GivenBack { why: refusal.into(), what },
            _ => unreachable!("it was given words"),
        })
    }

    /// The graph that this buffer is, where it is.
    ///
    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes), with the buffer.
    pub fn from_buf(buf: Buf) -> Result<Self, GivenBack<Buf, GraphError>> {
        Self::from_buf_if(buf, true)
    }

    pub(super) fn from_buf_if(buf: Buf, checked: bool) -> Result<Self, GivenBack<Buf, GraphError>> {
        if !buf.offset_in_region().is_multiple_of(slot::ALIGN) {
            let copied = Self::from_bytes(buf.bytes());
            return copied.map_err(|why| GivenBack { why, what: buf });
        }
        let block = Block::new(BlockMemory::Pool(buf, None)).expect("it is aligned");
        Self::from_block(block, checked).map_err(|refused| match *refused {
            (refusal, BlockMemory::Pool(what, _)) => GivenBack { why: refusal.into(), what },
            _ => unreachable!("it was given a buffer"),
        })
    }

    pub(super) fn from_block(
        block: Block,
        checked: bool,
    ) -> Result<Self, Box<(GraphRefusal, BlockMemory)>> {
        let read = GraphHead::read(GraphClasses::of::<Root>(), block.bytes());
        let checked = read.and_then(|mut head| {
            if checked {
                head.check(block.words())?;
            }
            head.check_root::<Root>(block.words())?;
            Ok(head)
        });
        match checked {
            Ok(head) => {
                let (root, end) = (head.root(), head.len);
                let store = Store::over(block, head.arenas, end);
                Ok(Self { store, root, _root: PhantomData })
            }
            Err(refusal) => Err(Box::new((*refusal, block.into_owner()))),
        }
    }

    /// What a message with such a graph says it carries: a receive for another type does not
    /// take it.
    #[must_use]
    pub fn kind() -> Kind {
        GraphClasses::of::<Root>().kind.clone()
    }
}

impl GraphHead {
    /// The one pass over the objects.
    fn check(&mut self, words: &[u64]) -> Result<(), Box<GraphRefusal>> {
        for class in 0..self.arenas.len() {
            let mut check = Check { words: &words[..self.len / slot::ALIGN], arenas: &self.arenas };
            let empty = (self.arenas[class].class.check)(&mut check, class)?;
            self.arenas[class].empty = empty;
        }
        Ok(())
    }

    /// Whether there is a root; also of a graph that is believed, for it costs nothing.
    fn check_root<Root: Object>(&self, words: &[u64]) -> Result<(), Box<GraphRefusal>> {
        let check = Check { words: &words[..self.len / slot::ALIGN], arenas: &self.arenas };
        let is_object = |root: &Ref<Root>| check.leads(*root);
        let root = self.root().filter(|root| is_object(root) || planted(Fault::AnyRoot));
        root.map(|_| ()).ok_or_else(|| GraphRefusal::at(head::ROOT, GraphDefect::Root))
    }
}

/// The whole words of these bytes, copied.
fn words(bytes: &[u8]) -> Vec<u64> {
    let (whole, _) = bytes.as_chunks();
    let mut words = vec![0; whole.len()];
    cast_slice_mut::<u64, [u8; slot::ALIGN]>(&mut words).copy_from_slice(whole);
    words
}
