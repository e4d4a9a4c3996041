//! A few bytes that no file of memory shows.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use zeroize::Zeroize;

use super::mapped_file::MappedFile;
use super::mapping;

/// Bytes that no other process is to see, at most a page of them.
///
/// They lie in a mapping of their own, which the kernel leaves out of core dumps and, as far as
/// `ulimit -l` goes, does not write to swap. The last clone wipes them. Where the system has no mapping to
/// give they lie on the heap, and are wiped all the same.
///
/// A forked child has them too: a mapping that is wiped there would be a secret that everybody
/// knows. What is executed afterwards has nothing.
#[derive(Clone)]
pub(crate) struct Hidden<const N: usize>(Arc<HiddenMemory<N>>);

impl<const N: usize> Hidden<N> {
    /// Takes `bytes` out of sight. What the caller has them from is its own to wipe.
    #[must_use]
    pub(crate) fn new(mut bytes: [u8; N]) -> Self {
        const { assert!(0 < N && N <= PAGE, "from one byte to a page") };
        let mut kept = HiddenMemory::<N>::new();
        kept.bytes_mut().copy_from_slice(&bytes);
        bytes.zeroize();
        Self(Arc::new(kept))
    }
}

impl<const N: usize> Deref for Hidden<N> {
    type Target = [u8; N];

    fn deref(&self) -> &[u8; N] {
        self.0.bytes()
    }
}

impl<const N: usize> fmt::Debug for Hidden<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hidden(..)")
    }
}

/// Where the bytes are.
enum HiddenMemory<const N: usize> {
    Apart(MappedFile),
    Heap(Box<[u8; N]>),
}

impl<const N: usize> HiddenMemory<N> {
    /// Zeros.
    fn new() -> Self {
        match MappedFile::anonymous(N) {
            Ok(mapping) => {
                mapping::keep_from_dumps(mapping.base, mapping.len);
                // As far as it goes: many secrets of a process with a small limit are still secrets.
                let _ = mapping::lock(mapping.base, mapping.len);
                Self::Apart(mapping)
            }
            Err(_) => Self::Heap(Box::new([0; N])),
        }
    }

    fn bytes(&self) -> &[u8; N] {
        match self {
            Self::Apart(mapping) => mapping.as_ref().first_chunk().expect("a page has room"),
            Self::Heap(bytes) => bytes,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8; N] {
        match self {
            Self::Apart(mapping) => mapping.as_mut().first_chunk_mut().expect("a page has room"),
            Self::Heap(bytes) => bytes,
        }
    }
}

impl<const N: usize> Drop for HiddenMemory<N> {
    fn drop(&mut self) {
        self.bytes_mut().zeroize();
        #[cfg(test)]
        tests::WIPED.with(|wiped| wiped.set(self.bytes().iter().all(|byte| *byte == 0)));
    }
}

/// The smallest page of any machine.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Whether the last to be dropped was wiped.
        pub(super) static WIPED: Cell<bool> = const { Cell::new(false) };
    }

    /// What the kernel says of the mapping that an address is in.
    fn flags(address: *const u8) -> Vec<String> {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_it = false;
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let bounds = range.map(|(from, to)| [from, to].map(|at| usize::from_str_radix(at, 16)));
            if let Some([Ok(from), Ok(to)]) = bounds {
                is_it = (from..to).contains(&address.addr());
            }
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_it) {
                return flags.split_whitespace().map(str::to_owned).collect();
            }
        }
        panic!("no mapping has {address:?}");
    }

    #[test]
    fn a_core_dump_leaves_them_out() {
        let hidden = Hidden::new([7; 32]);
        let found = flags(hidden.as_ptr());
        assert!(found.iter().any(|flag| flag == "dd"), "{found:?}");
        let beside = Box::new([7_u8; 32]);
        let found = flags(beside.as_ptr());
        assert!(!found.iter().any(|flag| flag == "dd"), "only those: {found:?}");
        // A child that is forked keeps them, and nothing wipes them there.
        assert!(!flags(hidden.as_ptr()).iter().any(|flag| flag == "wf" || flag == "dc"));
    }

    #[test]
    fn clones_share_one_place_and_the_last_wipes_it() {
        let first = Hidden::new(*b"hush");
        let second = first.clone();
        assert_eq!(first.as_ptr(), second.as_ptr());
        WIPED.set(false);
        drop(first);
        assert!(!WIPED.get(), "there is another");
        assert_eq!(*second, *b"hush");
        drop(second);
        assert!(WIPED.get());
    }

    #[test]
    fn without_a_mapping_they_are_on_the_heap_and_wiped_too() {
        let mut kept = HiddenMemory::<4>::Heap(Box::new([0; 4]));
        kept.bytes_mut().copy_from_slice(b"hush");
        assert_eq!(kept.bytes(), b"hush");
        WIPED.set(false);
        drop(kept);
        assert!(WIPED.get());
    }

    #[test]
    fn a_page_is_the_most() {
        let most = Hidden::new([1; PAGE]);
        assert!(most.iter().all(|byte| *byte == 1));
        assert_eq!(format!("{most:?}"), "Hidden(..)");
    }
}
