//! Making a graph dense: no empty slots, no slices without a reference.

use egret_net::buf::{Ref, flat};

use super::class::GraphClasses;
use super::error::GraphError;
use super::fault::{Fault, planted};
use super::head;
use super::object::{Object, RenewRefs};
use super::slot;
use super::store::Store;

/// Where objects went.
#[derive(Debug)]
pub(super) struct Moves<'s> {
    from: &'s Store,
    /// By class and old index.
    to: Vec<Vec<u32>>,
    seed: u32,
}

impl Moves<'_> {
    /// What a reference has become.
    pub(super) fn find<T: ?Sized>(&self, reference: Ref<T>) -> Option<Ref<T>> {
        if planted(Fault::Unrenewed) {
            return Some(reference);
        }
        self.from.slot(reference)?;
        let index = self.to[usize::from(reference.class())][reference.index() as usize];
        Ref::new(reference.class(), index, self.seed)
    }
}

impl Moves<'_> {
    #[cold]
    fn missing<T: ?Sized>(&self, reference: Ref<T>) -> GraphError {
        let arena = self.from.arenas.get(usize::from(reference.class()));
        let class = arena.map_or("a class that is not here", |arena| &arena.class.name);
        GraphError::Dangling { class: class.to_owned(), index: reference.index() }
    }
}

impl RenewRefs for Moves<'_> {
    type Stop = GraphError;

    fn renew<T: ?Sized>(&mut self, reference: &mut Ref<T>) -> Result<(), GraphError> {
        *reference = self.find(*reference).ok_or_else(|| self.missing(*reference))?;
        Ok(())
    }

    fn renew_option<T: ?Sized>(
        &mut self,
        reference: &mut Option<Ref<T>>,
    ) -> Result<(), GraphError> {
        *reference = reference.and_then(|reference| self.find(reference));
        Ok(())
    }
}

/// The same objects in a block of their own, and where they went.
pub(super) fn compacted<'s>(
    classes: &'static GraphClasses,
    from: &'s Store,
) -> Result<(Store, Moves<'s>), GraphError> {
    let sizes: Vec<_> = (0..from.arenas.len()).map(|class| from.live_bytes(class)).collect();
    let needed = sizes.iter().map(|(slots, data)| slots + data).sum::<usize>();
    let block = from.block.another(head::bytes(classes.all.len()) + needed);
    let mut store = Store::new(classes, block);
    let mut to = Vec::with_capacity(from.arenas.len());
    for (class, (slots, data)) in sizes.into_iter().enumerate() {
        store.make_room(class, slots, data);
        to.push(store.adopt(class, from));
    }
    let mut moves = Moves { from, to, seed: store.seed };
    for (number, class) in classes.all.iter().enumerate() {
        (class.renew_refs)(&mut store, number, &mut moves)?;
    }
    Ok((store, moves))
}

impl Store {
    /// The slots of a class that have an object, each with the elements of its slice.
    ///
    /// A slice that lies on the one before, as in a graph that was believed and lies, has none.
    fn living(&self, class: usize) -> impl Iterator<Item = (u32, &[u8], &[u8])> {
        let arena = &self.arenas[class];
        let (bytes, size) = (self.block.bytes(), arena.class.element.unwrap_or(0));
        let data = &bytes[arena.data.range()];
        let slots = bytes[arena.slots.range()].chunks_exact(arena.class.stride);
        let mut free = 0;
        (0..).zip(slots).filter_map(move |(index, slot)| {
            let (start, count) = slot::span(slot).filter(|_| size > 0).unwrap_or_default();
            let end = start.saturating_add(count.saturating_mul(size));
            let elements = data.get(start..end).filter(|_| start >= free).unwrap_or_default();
            free = free.max(start + elements.len());
            let is_living = slot::header(slot).is_some_and(|head| head & slot::EMPTY == 0);
            is_living.then_some((index, slot, elements))
        })
    }

    /// What the objects of a class need: for slots, and for elements.
    fn live_bytes(&self, class: usize) -> (usize, usize) {
        let stride = self.arenas[class].class.stride;
        self.living(class).fold((0, 0), |(slots, data), (_, _, elements)| {
            (slots + stride, data + elements.len().next_multiple_of(slot::ALIGN))
        })
    }

    /// Takes over the living objects of a class; gives the new number of each.
    fn adopt(&mut self, class: usize, from: &Self) -> Vec<u32> {
        let mut to = vec![u32::MAX; from.arenas[class].count as usize];
        let size = from.arenas[class].class.element;
        for (index, slot, elements) in from.living(class) {
            to[index as usize] = self.arenas[class].count;
            match size {
                None => self.insert_raw(class, &slot[slot::HEADER..]),
                Some(size) => {
                    let _: Ref<()> = self.insert_span_in(class, elements, elements.len() / size);
                }
            }
        }
        to
    }
}

/// Renews what the objects of a class refer to.
pub(super) fn renew_objects<T: Object>(
    store: &mut Store,
    class: usize,
    moves: &mut Moves<'_>,
) -> Result<(), GraphError> {
    let range = store.arenas[class].slots.range();
    let slots = &mut store.block.bytes_mut()[range];
    for slot in slots.chunks_exact_mut(slot::stride(size_of::<T>())) {
        if let Some(value) = flat::view_mut::<T>(&mut slot[slot::HEADER..]) {
            value.renew_refs(moves)?;
        }
    }
    Ok(())
}

/// Renews what the elements of slices refer to.
pub(super) fn renew_slices<T: Object>(
    store: &mut Store,
    class: usize,
    moves: &mut Moves<'_>,
) -> Result<(), GraphError> {
    for index in 0..store.arenas[class].count {
        let reference = store.ref_at::<[T]>(class, index);
        if let Some(elements) = reference.and_then(|reference| store.slice_mut(reference)) {
            elements.iter_mut().try_for_each(|element| element.renew_refs(moves))?;
        }
    }
    Ok(())
}

/// There is nothing to renew.
pub(super) fn renew_nothing(_: &mut Store, _: usize, _: &mut Moves<'_>) -> Result<(), GraphError> {
    Ok(())
}
