//! What stands before the objects in a message: the table of the classes, and where each is.
//!
//! ```text
//!   0   "EGRG"   version 2   classes 2
//!   8   root: a reference
//!  16   bytes of all
//!  24   0
//!  32   for each class:
//!         fingerprint 8 │ slots begin 8 │ slots 4 │ empty ones 4 │ elements begin 8 │ bytes of them 8
//! ```

use egret_net::buf::Ref;

use super::arena::{Arena, ArenaPart, Extent};
use super::class::GraphClasses;
use super::error::{GraphDefect, GraphRefusal, VERSION};
use super::fault::{Fault, planted};

/// Bytes of the head of a graph with so many classes.
pub(super) const fn bytes(classes: usize) -> usize {
    START + classes * ENTRY
}

/// Writes the head of a message in which the parts lie where `layout` says; gives how long the
/// message is.
pub(super) fn write(to: &mut [u8], root: u64, arenas: &[Arena], layout: HeadLayout) -> usize {
    let mut end = bytes(arenas.len());
    for (arena, entry) in arenas.iter().zip(to[START..].chunks_exact_mut(ENTRY)) {
        let mut place = |extent: &Extent| {
            let start = if layout == HeadLayout::Dense { end } else { extent.start };
            end = start + extent.len;
            start as u64
        };
        let (slots, data) = (place(&arena.slots), place(&arena.data));
        entry[..8].copy_from_slice(&arena.class.fingerprint.to_le_bytes());
        entry[8..16].copy_from_slice(&slots.to_le_bytes());
        entry[16..20].copy_from_slice(&arena.count.to_le_bytes());
        entry[20..24].copy_from_slice(&arena.empty.min(arena.count).to_le_bytes());
        entry[24..32].copy_from_slice(&data.to_le_bytes());
        entry[32..40].copy_from_slice(&(arena.data.len as u64).to_le_bytes());
    }
    if let HeadLayout::AsIs { len } = layout {
        end = len;
    }
    let classes = u16::try_from(arenas.len()).expect("a reference tells 255 apart");
    to[..4].copy_from_slice(MAGIC);
    to[4..6].copy_from_slice(&VERSION.to_le_bytes());
    to[6..8].copy_from_slice(&classes.to_le_bytes());
    to[8..16].copy_from_slice(&root.to_le_bytes());
    to[16..24].copy_from_slice(&(end as u64).to_le_bytes());
    to[24..START].fill(0);
    end
}

/// Where the parts of a message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadLayout {
    /// One behind the other, without what is not used.
    Dense,
    /// Where they are in the block, of which so many bytes are sent.
    AsIs { len: usize },
}

/// What the head of a message says.
#[derive(Debug)]
pub(super) struct GraphHead {
    pub(super) root: u64,
    pub(super) len: usize,
    pub(super) arenas: Vec<Arena>,
}

impl GraphHead {
    /// Reads it: every part lies inside `message`, and none on another.
    pub(super) fn read(
        classes: &'static GraphClasses,
        message: &[u8],
    ) -> Result<Self, Box<GraphRefusal>> {
        let refuse = |offset, reason| Err(GraphRefusal::at(offset, reason));
        let Some(head) = message.first_chunk::<START>().filter(|head| head.starts_with(MAGIC))
        else {
            return refuse(0, GraphDefect::NoGraph);
        };
        let found = u16_at(head, 4);
        if found != VERSION {
            return refuse(4, GraphDefect::Version { found });
        }
        let (here, there) = (classes.all.len(), usize::from(u16_at(head, 6)));
        if here != there {
            let graph = classes.kind.name.to_string();
            return refuse(6, GraphDefect::Classes { graph, here, there });
        }
        let said = u64_at(head, 16);
        let there = message.len() as u64;
        let is_whole = said <= there && said >= bytes(here) as u64 && said.is_multiple_of(8);
        if !is_whole {
            return refuse(16, GraphDefect::Length { said, there });
        }
        let len = usize::try_from(said).expect("the message is as long");
        let arenas = arenas(classes, &message[START..bytes(here)], len)?;
        Ok(Self { root: u64_at(head, 8), len, arenas })
    }

    /// The root, as a reference.
    pub(super) fn root<Root>(&self) -> Option<Ref<Root>> {
        Ref::from_bits(self.root)
    }
}

fn arenas(
    classes: &'static GraphClasses,
    entries: &[u8],
    len: usize,
) -> Result<Vec<Arena>, Box<GraphRefusal>> {
    let mut arenas = Vec::with_capacity(classes.all.len());
    let entries = classes.all.iter().zip(entries.chunks_exact(ENTRY)).enumerate();
    for (number, (class, entry)) in entries {
        let at = START + number * ENTRY;
        if u64_at(entry, 0) != class.fingerprint {
            let name = class.name.clone();
            return Err(GraphRefusal::at(at, GraphDefect::Class { number, name }));
        }
        let (count, empty) = (u32_at(entry, 16), u32_at(entry, 20));
        let slots = part(u64_at(entry, 8), u64::from(count) * class.stride as u64, len);
        let data = part(u64_at(entry, 24), u64_at(entry, 32), len);
        let slots = slots.filter(|_| empty <= count);
        let is_expected = |data: &Extent| class.element.is_some() || data.len == 0;
        let data = data.filter(is_expected);
        let slots = slots.ok_or_else(|| misplaced(number, &class.name, ArenaPart::Slots))?;
        let data = data.ok_or_else(|| misplaced(number, &class.name, ArenaPart::Data))?;
        arenas.push(Arena { count, slots, data, empty, free: None, ..Arena::new(class) });
    }
    apart(&arenas)?;
    Ok(arenas)
}

#[cold]
fn misplaced(number: usize, name: &str, part: ArenaPart) -> Box<GraphRefusal> {
    let (offset, what) = match part {
        ArenaPart::Slots => (8, "objects"),
        ArenaPart::Data => (24, "elements"),
    };
    let reason = GraphDefect::Misplaced { what, number, name: name.to_owned() };
    GraphRefusal::at(START + number * ENTRY + offset, reason)
}

/// The part of the message that begins at `start`, if it lies in it, behind the head.
fn part(start: u64, bytes: u64, len: usize) -> Option<Extent> {
    let bytes = usize::try_from(bytes).ok()?;
    if bytes == 0 {
        return Some(Extent::default());
    }
    let start = usize::try_from(start).ok()?;
    let is_aligned = start.is_multiple_of(8) && bytes.is_multiple_of(8);
    let is_inside = start.checked_add(bytes).is_some_and(|end| end <= len);
    (is_aligned && is_inside).then_some(Extent { start, len: bytes, room: bytes })
}

/// Whether none lies on another, or on the head.
fn apart(arenas: &[Arena]) -> Result<(), Box<GraphRefusal>> {
    let extent = |place: u16| {
        let arena = &arenas[usize::from(place / 2)];
        if place.is_multiple_of(2) { arena.slots } else { arena.data }
    };
    let mut places = [0; PARTS_MAX];
    let mut count = 0;
    for place in (0..).take(2 * arenas.len()).filter(|place| extent(*place).len > 0) {
        places[count] = place;
        count += 1;
    }
    let places = &mut places[..count];
    places.sort_unstable_by_key(|place| extent(*place).start);
    let mut free = bytes(arenas.len());
    for place in places {
        let extent = extent(*place);
        if overlaps(extent.start, free) {
            let number = usize::from(*place / 2);
            let part = if place.is_multiple_of(2) { ArenaPart::Slots } else { ArenaPart::Data };
            return Err(misplaced(number, &arenas[number].class.name, part));
        }
        free = extent.end();
    }
    Ok(())
}

/// Whether a part begins before the one before it ends.
fn overlaps(start: usize, free: usize) -> bool {
    start < free && !planted(Fault::PartsOverlap)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes[at..].first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

const MAGIC: &[u8] = b"EGRG";
/// Where the root is.
pub(super) const ROOT: usize = 8;
const START: usize = 32;
const ENTRY: usize = 40;
/// Two for each class.
const PARTS_MAX: usize = 2 * super::class::CLASSES_MAX;
