//! A graph, as a program sees it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

use egret_net::buf::{Block, Buf, IsA, MemoryError, Pool, Ref, flat};

use super::check::Check;
use super::class::{GraphClasses, short_name};
use super::compact;
use super::error::{GraphDefect, GraphError};
use super::object::{Object, Target};
use super::slot;
use super::store::Store;
use super::{Slice, Text};

/// Objects of several types that refer to each other, in one piece of memory that can be
/// sent, saved or handed over as it is.
///
/// Its types are those that can be reached from `Root` by references. An object is owned by the
/// graph; a [`Ref`] is a number that the graph looks up. Objects are found in constant time, and
/// what a reference leads to is checked each time: an object that was removed, or is of another
/// graph, is not found ([`get`](Self::get)), or a panic ([`graph[reference]`](Self::index)).
///
/// ```
/// use egret_stream::graph::{Graph, Object, Ref};
///
/// #[derive(Clone, Copy, Object)]
/// #[repr(C)]
/// struct Person {
///     born: u64,
///     friend: Option<Ref<Person>>,
/// }
///
/// let mut graph = Graph::new(Person { born: 1815, friend: None });
/// let ada = graph.root_ref();
/// let mary = graph.insert(Person { born: 1780, friend: Some(ada) });
/// graph[ada].friend = Some(mary); // a cycle
///
/// let message = graph.to_vec();
/// let there = Graph::<Person>::from_bytes(&message)?; // checked
/// let friend = there.root().friend.unwrap();
/// assert_eq!(there[friend].born, 1780);
/// assert_eq!(there[friend].friend, Some(there.root_ref()));
/// # Ok::<(), egret_stream::graph::GraphError>(())
/// ```
pub struct Graph<Root> {
    pub(super) store: Store,
    pub(super) root: Option<Ref<Root>>,
    pub(super) _root: PhantomData<fn() -> Root>,
}

impl<Root: Object> Graph<Root> {
    /// A graph of one object, which is its root.
    #[must_use]
    pub fn new(root: Root) -> Self {
        Self::build(|graph| graph.insert(root))
    }

    /// A graph whose root is made last, as that of a tree is: `make` inserts objects and gives
    /// the root.
    ///
    /// ```
    /// use egret_stream::graph::{Graph, Object, Ref};
    ///
    /// #[derive(Clone, Copy, Object)]
    /// #[repr(C)]
    /// struct Tree {
    ///     value: u64,
    ///     children: [Option<Ref<Tree>>; 2],
    /// }
    ///
    /// fn grow(graph: &mut Graph<Tree>, depth: u64) -> Ref<Tree> {
    ///     let children = [(); 2].map(|()| (depth > 1).then(|| grow(graph, depth - 1)));
    ///     graph.insert(Tree { value: depth, children })
    /// }
    /// let graph = Graph::build(|graph| grow(graph, 10));
    /// assert_eq!(graph.len::<Tree>(), 1023);
    /// ```
    #[must_use]
    pub fn build(make: impl FnOnce(&mut Self) -> Ref<Root>) -> Self {
        Self::fill(Block::on_heap(Vec::with_capacity(FIRST_WORDS)), make)
    }

    /// As [`build`](Self::build), in a buffer of `pool` that has room for `bytes`: one that is
    /// [handed over](Self::hand_over) to a process that cooperates is not copied. A graph that
    /// grows beyond it moves to a larger buffer of the pool, or to the heap if there is none.
    ///
    /// # Errors
    ///
    /// If the pool has no such buffer.
    pub fn build_in(
        pool: &Pool,
        bytes: usize,
        make: impl FnOnce(&mut Self) -> Ref<Root>,
    ) -> Result<Self, MemoryError> {
        Ok(Self::fill(Block::in_pool(pool, bytes)?, make))
    }

    fn fill(block: Block, make: impl FnOnce(&mut Self) -> Ref<Root>) -> Self {
        let store = Store::new(GraphClasses::of::<Root>(), block);
        let mut graph = Self { store, root: None, _root: PhantomData };
        let root = make(&mut graph);
        graph.set_root(root);
        graph
    }

    /// Adds an object.
    ///
    /// # Panics
    ///
    /// If nothing in the graph can refer to a `T`: it is no class of a graph of `Root`.
    #[inline]
    pub fn insert<T: Object>(&mut self, value: T) -> Ref<T> {
        self.store.insert(value)
    }

    /// Adds a slice of objects or numbers.
    ///
    /// # Panics
    ///
    /// If nothing in the graph can refer to a `Slice<T>`.
    pub fn insert_slice<T: Object>(&mut self, values: &[T]) -> Slice<T> {
        self.store.insert_span(flat::bytes_of(values), values.len())
    }

    /// Adds a text.
    ///
    /// # Panics
    ///
    /// If nothing in the graph can refer to a `Text`.
    pub fn insert_text(&mut self, text: &str) -> Text {
        self.store.insert_span(text.as_bytes(), text.len())
    }

    /// Makes room for `more` objects of a type, so that they can be inserted without that
    /// anything moves.
    ///
    /// # Panics
    ///
    /// If nothing in the graph can refer to a `T`, or no memory has room for so many.
    pub fn reserve<T: Object>(&mut self, more: usize) {
        self.store.reserve::<T>(more);
    }

    /// The object, slice or text, if it is in this graph.
    #[inline]
    #[must_use]
    pub fn get<T: Target + ?Sized>(&self, reference: Ref<T>) -> Option<&T> {
        T::find(&self.store, reference)
    }

    /// The same, to be written.
    #[inline]
    #[must_use]
    pub fn get_mut<T: Target + ?Sized>(&mut self, reference: Ref<T>) -> Option<&mut T> {
        T::find_mut(&mut self.store, reference)
    }

    /// One element of a slice, in constant time: `graph[slice]` looks at all of them first if they
    /// are of a type of which not all bytes are values, as references are.
    ///
    /// ```
    /// use egret_stream::graph::{Graph, Ref, Slice};
    ///
    /// let mut graph: Graph<Slice<Ref<u64>>> = Graph::build(|graph| {
    ///     let numbers = [1, 2, 3].map(|number| graph.insert(number));
    ///     let slice = graph.insert_slice(&numbers);
    ///     graph.insert(slice)
    /// });
    /// let numbers = *graph.root();
    /// for at in 0..3 {
    ///     let number = *graph.at(numbers, at).unwrap();
    ///     graph[number] += 10;
    /// }
    /// assert_eq!(graph.at(numbers, 3), None);
    /// assert_eq!(graph.iter::<u64>().map(|(_, number)| number).sum::<u64>(), 36);
    /// ```
    #[must_use]
    pub fn at<T: Object>(&self, slice: Slice<T>, at: usize) -> Option<&T> {
        self.store.element(slice, at)
    }

    /// The same, to be written.
    #[must_use]
    pub fn at_mut<T: Object>(&mut self, slice: Slice<T>, at: usize) -> Option<&mut T> {
        self.store.element_mut(slice, at)
    }

    /// Whether it leads to an object of this graph.
    #[must_use]
    pub fn contains<T: Target + ?Sized>(&self, reference: Ref<T>) -> bool {
        let class = self.store.arenas.get(usize::from(reference.class()));
        class.is_some_and(|class| T::is_class(class.id, class.class))
            && self.store.contains(reference)
    }

    /// Takes an object out, and gives it. References to it lead nowhere from now on; an object that has
    /// one should drop it, for a graph with such references is refused where it arrives
    /// ([`check`](Self::check) finds them). Slices and texts that it had stay.
    ///
    /// ```
    /// use egret_stream::graph::{Graph, Object, Ref};
    ///
    /// #[derive(Clone, Copy, Object)]
    /// #[repr(C)]
    /// struct Person {
    ///     friend: Option<Ref<Person>>,
    /// }
    /// let mut graph = Graph::new(Person { friend: None });
    /// let friend = graph.insert(Person { friend: None });
    /// graph.root_mut().friend = Some(friend);
    ///
    /// assert!(graph.remove(friend).is_some());
    /// assert!(graph.get(friend).is_none());
    /// assert!(graph.check().is_err(), "the root still refers to it");
    /// graph.compact()?; // and not any more
    /// assert!(graph.root().friend.is_none() && graph.check().is_ok());
    /// # Ok::<(), egret_stream::graph::GraphError>(())
    /// ```
    pub fn remove<T: Object>(&mut self, reference: Ref<T>) -> Option<T> {
        let value = *self.store.object(reference)?;
        self.store.remove(reference);
        Some(value)
    }

    /// Takes out whatever a reference leads to: a slice or a text, whose memory is used again after
    /// a [compaction](Self::compact), or an object of which only a trait is known. `false` if it is
    /// not in the graph.
    pub fn discard<T: Target + ?Sized>(&mut self, reference: Ref<T>) -> bool {
        self.contains(reference) && self.store.remove(reference)
    }

    /// The root.
    ///
    /// # Panics
    ///
    /// If it was removed, or while the graph is being [built](Self::build).
    #[must_use]
    pub fn root(&self) -> &Root {
        &self[self.root_ref()]
    }

    /// The root, to be written.
    ///
    /// # Panics
    ///
    /// As [`root`](Self::root).
    #[must_use]
    pub fn root_mut(&mut self) -> &mut Root {
        let root = self.root_ref();
        &mut self[root]
    }

    /// A reference to the root.
    ///
    /// # Panics
    ///
    /// While the graph is being [built](Self::build).
    #[must_use]
    pub fn root_ref(&self) -> Ref<Root> {
        self.root.expect("the graph is being built, and has no root yet")
    }

    /// Makes another object the root.
    ///
    /// # Panics
    ///
    /// If it is not in the graph.
    pub fn set_root(&mut self, root: Ref<Root>) {
        assert!(self.store.object(root).is_some(), "{root:?} is not in this graph");
        self.root = Some(root);
    }

    /// How many objects of a type there are; also of slices (`[T]`) and texts (`str`).
    #[must_use]
    pub fn len<T: Target + ?Sized>(&self) -> usize {
        let arenas = self.store.arenas.iter().filter(|arena| T::is_class(arena.id, arena.class));
        arenas.map(|arena| arena.living() as usize).sum()
    }

    /// Whether there is no object of a type.
    #[must_use]
    pub fn is_empty<T: Target + ?Sized>(&self) -> bool {
        self.len::<T>() == 0
    }

    /// The objects of a type, in the order in which they lie in memory.
    pub fn iter<T: Object>(&self) -> impl Iterator<Item = (Ref<T>, &T)> {
        let refs = self.refs::<T>();
        refs.filter_map(|reference| self.store.object(reference).map(|object| (reference, object)))
    }

    /// References to the objects of a type; also of slices and texts.
    pub fn refs<T: Target + ?Sized>(&self) -> impl Iterator<Item = Ref<T>> {
        let classes = self.store.arenas.iter().enumerate();
        let classes = classes.filter(|(_, arena)| T::is_class(arena.id, arena.class));
        classes.flat_map(move |(class, arena)| {
            (0..arena.count).filter_map(move |index| self.store.ref_at(class, index))
        })
    }

    /// Calls `each` with every object of a type, to be written.
    pub fn for_each_mut<T: Object>(&mut self, mut each: impl FnMut(Ref<T>, &mut T)) {
        let Some(class) = self.store.find_class::<T>() else { return };
        for index in 0..self.store.arenas[class].count {
            if let Some(reference) = self.store.ref_at::<T>(class, index)
                && let Some(object) = self.store.object_mut(reference)
            {
                each(reference, object);
            }
        }
    }

    /// The reference as one to a `T`, if that is what it leads to.
    #[must_use]
    pub fn downcast<T: Object + IsA<D>, D: Target + ?Sized>(
        &self,
        reference: Ref<D>,
    ) -> Option<Ref<T>> {
        let reference = reference.cast::<T>();
        self.store.object(reference).map(|_| reference)
    }

    /// Makes it dense: what was removed takes no memory any more. Objects get other places, so
    /// that references from outside lead nowhere afterwards; those in the graph are
    /// renewed, and an `Option<Ref>` to what was removed becomes `None`.
    ///
    /// # Errors
    ///
    /// If a `Ref` leads to what was removed; then the graph is as it was.
    pub fn compact(&mut self) -> Result<(), GraphError> {
        let (store, moves) = compact::compacted(GraphClasses::of::<Root>(), &self.store)?;
        let root = self.root_ref();
        self.root = Some(moves.find(root).ok_or(GraphError::NoRoot { index: root.index() })?);
        self.store = store;
        Ok(())
    }

    /// Looks at every object, as on arrival: whether the graph would be accepted there.
    ///
    /// # Errors
    ///
    /// What is wrong with it; the offset is one of its memory.
    pub fn check(&self) -> Result<(), GraphError> {
        let check = Check { words: self.store.block.words(), arenas: &self.store.arenas };
        check.all(self.root).map_err(|refusal| GraphError::Refused(*refusal))
    }

    /// Refuses a graph that must not be sent: one with a reference to an object that was removed.
    /// A graph from which nothing was removed is not looked at; a reference of another graph is
    /// found by [`check`](Self::check), and by the receiver.
    ///
    /// # Errors
    ///
    /// [`GraphError::Dangling`], with the class and the index of the missing object, or
    /// [`GraphError::NoRoot`].
    #[doc(hidden)] // For the layers above, which send graphs.
    pub fn check_before_sending(&self) -> Result<(), GraphError> {
        if !self.store.may_dangle {
            return Ok(());
        }
        self.check().map_err(|error| self.named(error))
    }

    /// A reference that leads nowhere, with the name of its class.
    #[cold]
    fn named(&self, error: GraphError) -> GraphError {
        let GraphError::Refused(refusal) = &error else { return error };
        match refusal.reason {
            GraphDefect::Dangling { class, index } => {
                let arena = self.store.arenas.get(usize::from(class));
                let name = arena.map(|arena| arena.class.name.clone());
                let class = name.unwrap_or_else(|| format!("class {class}"));
                GraphError::Dangling { class, index }
            }
            GraphDefect::Root => GraphError::NoRoot { index: self.root_ref().index() },
            _ => error,
        }
    }

    /// Takes larger buffers from `pool` when it grows and when it is compacted, if it lies in a
    /// buffer; one that arrived has no pool, and would move to the heap.
    pub fn grow_in(&mut self, pool: &Pool) {
        self.store.block.grow_in(pool);
    }

    /// Bytes that a message with this graph has.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        let parts = self.store.arenas.iter().map(|arena| arena.slots.len + arena.data.len);
        super::head::bytes(self.store.arenas.len()) + parts.sum::<usize>()
    }

    /// The buffer of a pool that it lies in, if it lies in one.
    #[must_use]
    pub fn buf(&self) -> Option<&Buf> {
        self.store.block.buf()
    }

    #[cold]
    #[inline(never)]
    fn missing<T: ?Sized>(reference: Ref<T>) -> ! {
        let name = short_name::<T>();
        panic!(
            "no `{name}` of this graph is at {reference:?}: it was removed, or is of another graph"
        );
    }
}

/// What a graph begins with: few graphs are smaller.
const FIRST_WORDS: usize = 512;

impl<Root: Object, T: Target + ?Sized> Index<Ref<T>> for Graph<Root> {
    type Output = T;

    #[inline]
    fn index(&self, reference: Ref<T>) -> &T {
        match T::find(&self.store, reference) {
            Some(found) => found,
            None => Self::missing(reference),
        }
    }
}

impl<Root: Object, T: Target + ?Sized> IndexMut<Ref<T>> for Graph<Root> {
    #[inline]
    fn index_mut(&mut self, reference: Ref<T>) -> &mut T {
        match T::find_mut(&mut self.store, reference) {
            Some(found) => found,
            None => Self::missing(reference),
        }
    }
}

/// The copy is on the heap, and references to objects of the one lead to the same in the other.
/// What is inserted afterwards is known to one of them alone, unless both use the same slot again.
impl<Root: Object> Clone for Graph<Root> {
    fn clone(&self) -> Self {
        let mut words = vec![0; self.store.end.div_ceil(slot::ALIGN)];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        bytes[..self.store.end].copy_from_slice(&self.store.block.bytes()[..self.store.end]);
        let arenas = self.store.arenas.clone();
        let (block, end) = (Block::on_heap(words), self.store.end);
        let mut store = Store::over(block, arenas, end);
        store.may_dangle = self.store.may_dangle;
        Self { store, root: self.root, _root: PhantomData }
    }
}

impl<Root> fmt::Debug for Graph<Root> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut told = f.debug_struct("Graph");
        for arena in &self.store.arenas {
            told.field(&arena.class.name, &arena.living());
        }
        told.field("root", &self.root).finish()
    }
}
