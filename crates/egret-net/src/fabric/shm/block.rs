//! The part of the [copies](super::copy) that is assembly, by architecture.

#[cfg(target_arch = "aarch64")]
pub(super) use aarch64::{claim, copy, store_byte};
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use portable::{claim, copy, store_byte};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::{claim, copy, store_byte};

/// What a loop of the assembly moves at a time.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const BLOCK: usize = 64;

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::asm;

    use super::BLOCK;

    /// From this many bytes on a string instruction is faster than a loop, on
    /// processors that are made for it (ERMS), if another processor wrote them last. In
    /// the cache a loop is some nanoseconds faster up to 1 KiB.
    const STRING: usize = 384;

    /// Says that the cache line at `to` will be written soon.
    #[inline]
    pub(in super::super) fn claim(to: *const u8) {
        // SAFETY: a hint, which reads and writes nothing and never faults.
        unsafe {
            asm!("prefetchw [{}]", in(reg) to, options(nostack, preserves_flags, readonly));
        }
    }

    /// Copies the first of `len` bytes, and says how many: all, or whole blocks.
    ///
    /// # Safety
    ///
    /// Valid for reads and for writes of `len` bytes that do not overlap.
    #[inline]
    pub(in super::super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> usize {
        let whole = len - len % BLOCK;
        if len >= STRING && is_x86_feature_detected!("ermsb") {
            // SAFETY: as the caller says.
            unsafe { string(from, to, len) };
            return len;
        }
        if whole > 0 {
            // SAFETY: as the caller says, for the first of its bytes.
            unsafe { blocks(from, to, whole) };
        }
        whole
    }

    /// # Safety
    ///
    /// Valid for `len` bytes.
    #[inline]
    unsafe fn string(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller says that both are valid for `len` bytes; the direction flag is
        // clear, as it always is between Rust's own instructions.
        unsafe {
            asm!(
                "rep movsb",
                inout("rsi") from => _,
                inout("rdi") to => _,
                inout("rcx") len => _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    ///
    /// Valid for `len` bytes, which are whole blocks, at least one.
    #[inline]
    unsafe fn blocks(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller says that both are valid for `len` bytes, some whole blocks of 64.
        unsafe {
            asm!(
                "2:",
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movups [{to}], {a}",
                "movups [{to} + 16], {b}",
                "movups [{to} + 32], {c}",
                "movups [{to} + 48], {d}",
                "add {from}, 64",
                "add {to}, 64",
                "sub {len}, 64",
                "jne 2b",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                len = inout(reg) len => _,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack),
            );
        }
    }

    /// # Safety
    ///
    /// Valid for writes of the aligned word around it, which everything else in
    /// this process reaches by 64-bit atomics.
    #[inline]
    pub(in super::super) unsafe fn store_byte(to: *mut u8, byte: u8) {
        // SAFETY: as the caller says.
        unsafe {
            asm!(
                "mov byte ptr [{to}], {byte}",
                to = in(reg) to,
                byte = in(reg_byte) byte,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::asm;

    use super::BLOCK;

    /// Says that the cache line at `to` will be written soon.
    #[inline]
    pub(in super::super) fn claim(to: *const u8) {
        // SAFETY: a hint, which reads and writes nothing and never faults.
        unsafe {
            asm!("prfm pstl1keep, [{}]", in(reg) to, options(nostack, preserves_flags, readonly));
        }
    }

    /// Copies the first of `len` bytes, and says how many: whole blocks.
    ///
    /// # Safety
    ///
    /// Valid for reads and for writes of `len` bytes that do not overlap.
    #[inline]
    pub(in super::super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> usize {
        let whole = len - len % BLOCK;
        if whole > 0 {
            // SAFETY: as the caller says, for the first of its bytes.
            unsafe { blocks(from, to, whole) };
        }
        whole
    }

    /// # Safety
    ///
    /// Valid for `len` bytes, which are whole blocks, at least one.
    #[inline]
    unsafe fn blocks(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller says that both are valid for `len` bytes, some whole blocks of 64.
        unsafe {
            asm!(
                "2:",
                "ldp {a:q}, {b:q}, [{from}]",
                "ldp {c:q}, {d:q}, [{from}, #32]",
                "stp {a:q}, {b:q}, [{to}]",
                "stp {c:q}, {d:q}, [{to}, #32]",
                "add {from}, {from}, #64",
                "add {to}, {to}, #64",
                "subs {len}, {len}, #64",
                "b.ne 2b",
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                len = inout(reg) len => _,
                a = out(vreg) _,
                b = out(vreg) _,
                c = out(vreg) _,
                d = out(vreg) _,
                options(nostack),
            );
        }
    }

    /// # Safety
    ///
    /// Valid for writes of the aligned word around it, which everything else in
    /// this process reaches by 64-bit atomics.
    #[inline]
    pub(in super::super) unsafe fn store_byte(to: *mut u8, byte: u8) {
        // SAFETY: as the caller says.
        unsafe {
            asm!(
                "strb {byte:w}, [{to}]",
                to = in(reg) to,
                byte = in(reg) byte,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(any(test, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod portable {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;

    /// Says that the cache line at `to` will be written soon.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(in super::super) fn claim(_to: *const u8) {}

    /// Copies nothing: the words will do it all.
    ///
    /// # Safety
    ///
    /// None is needed.
    pub(in super::super) unsafe fn copy(_from: *const u8, _to: *mut u8, _len: usize) -> usize {
        0
    }

    /// # Safety
    ///
    /// Valid for writes of the aligned word around it, which everything else in
    /// this process reaches by 64-bit atomics.
    pub(in super::super) unsafe fn store_byte(to: *mut u8, byte: u8) {
        let index = to.addr() % size_of::<u64>();
        // SAFETY: the aligned word around the byte, as the caller says.
        let word = unsafe { AtomicU64::from_ptr(to.wrapping_sub(index).cast()) };
        let mut old = word.load(Relaxed);
        loop {
            let mut bytes = old.to_ne_bytes();
            bytes[index] = byte;
            let new = u64::from_ne_bytes(bytes);
            match word.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_stored_leaves_its_neighbours_alone() {
        for store in [store_byte as unsafe fn(*mut u8, u8), portable::store_byte] {
            for index in 0..16 {
                let mut words = [u64::MAX; 2];
                let to = words.as_mut_ptr().cast::<u8>().wrapping_add(index);
                // SAFETY: a byte of `words`, which no other has.
                unsafe { store(to, 0x5A) };
                let mut expected = [0xFF; 16];
                expected[index] = 0x5A;
                assert_eq!(bytemuck::cast::<_, [u8; 16]>(words), expected);
            }
        }
    }

    #[test]
    fn without_assembly_all_is_left_to_the_words() {
        let (from, mut to) = ([1; 256], [0; 256]);
        // SAFETY: both are arrays of this length.
        let done = unsafe { portable::copy(from.as_ptr(), to.as_mut_ptr(), to.len()) };
        assert_eq!((done, to), (0, [0; 256]));
    }
}
