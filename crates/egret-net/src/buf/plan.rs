//! How a pool is cut, told to another process that maps its region.

use thiserror::Error;

use super::buffer::Buf;
use super::class::ClassLayout;
use super::fault;
use super::free_list::FreeList;
use super::pool::SLOT_ALIGN;

/// The classes of a pool, as its home tells them and a visitor checks them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PoolPlan(Vec<ClassLayout>);

/// Why a plan is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum PlanError {
    /// Not some words for each class.
    #[error("{words} words are no plan: it takes {WORDS} for each of 1 to {CLASSES_MAX} classes")]
    Words { words: usize },
    /// A class that cannot be.
    #[error("class {class} of the plan is wrong: {why}")]
    Class { class: usize, why: &'static str },
}

impl PoolPlan {
    /// How the pool of `buf` is cut. `None` if that is more than can be told.
    pub(crate) fn of(buf: &Buf) -> Option<Self> {
        let core = buf.slot().core();
        let layouts = core.classes.iter().map(|class| class.layout(&core.region));
        (core.classes.len() <= CLASSES_MAX).then(|| Self(layouts.collect()))
    }

    /// For the wire: the bytes, the stride, the offset and the count of each class.
    pub(crate) fn words(&self) -> Vec<u64> {
        let words = |layout: &ClassLayout| {
            let ClassLayout { bytes, stride, offset, count, .. } = *layout;
            [bytes as u64, stride as u64, offset as u64, u64::from(count)]
        };
        self.0.iter().flat_map(words).collect()
    }

    /// Checks what came for a region of `len` bytes.
    pub(crate) fn read(words: &[u64], len: usize) -> Result<Self, PlanError> {
        let (classes, rest) = words.as_chunks::<WORDS>();
        if classes.is_empty() || classes.len() > CLASSES_MAX || !rest.is_empty() {
            return Err(PlanError::Words { words: words.len() });
        }
        let mut layouts: Vec<ClassLayout> = Vec::with_capacity(classes.len());
        for (class, words) in classes.iter().enumerate() {
            let before = layouts.last().map_or((0, 0), |last| (last.bytes, end(last)));
            let layout = check(*words, before, len);
            layouts.push(layout.map_err(|why| PlanError::Class { class, why })?);
        }
        Ok(Self(layouts))
    }

    pub(super) fn layouts(&self) -> &[ClassLayout] {
        &self.0
    }
}

/// A class behind one of so many bytes each, which ends there.
fn check(
    [bytes, stride, offset, count]: [u64; WORDS],
    before: (usize, usize),
    len: usize,
) -> Result<ClassLayout, &'static str> {
    let size = |word| usize::try_from(word).map_err(|_| "a number that is too large");
    let (bytes, stride, offset) = (size(bytes)?, size(stride)?, size(offset)?);
    let count = u32::try_from(count).ok().filter(|count| *count as usize <= COUNT_MAX);
    let count = count.ok_or("more slots than a class can have")?;
    let layout = ClassLayout { bytes, stride, offset, count, low_water: 0 };
    fault::plan_check(check_place(&layout, before, len)).map(|()| layout)
}

fn check_place(
    &ClassLayout { bytes, stride, offset, count, .. }: &ClassLayout,
    (bytes_before, end_before): (usize, usize),
    len: usize,
) -> Result<(), &'static str> {
    let wrong = [
        (bytes <= bytes_before, "its slots are not larger than those before"),
        (stride < bytes, "its slots overlap"),
        (stride % SLOT_ALIGN != 0 || offset % SLOT_ALIGN != 0, "its slots are not aligned"),
        (count == 0, "it has no slots"),
        (offset < end_before, "it overlaps the class before"),
    ];
    if let Some((_, why)) = wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        return Err(why);
    }
    let all = stride.checked_mul(count as usize).and_then(|all| all.checked_add(offset));
    all.filter(|end| *end <= len).map(|_| ()).ok_or("it does not lie in the region")
}

fn end(layout: &ClassLayout) -> usize {
    layout.offset + layout.stride * layout.count as usize
}

const WORDS: usize = 4;
pub(super) const CLASSES_MAX: usize = 64;
const COUNT_MAX: usize = <FreeList>::COUNT_MAX;
