//! A file as memory.

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{NonNull, null_mut};

use rustix::mm::{self, MapFlags, ProtFlags};

use super::error::MemoryError;
use super::mapping::MappingKind;

/// A file that is mapped into memory, privately: what is written to it stays in this process.
///
/// ```
/// use egret_net::buf::MappedFile;
///
/// let path = std::env::temp_dir().join(format!("egret-doc-{}", std::process::id()));
/// std::fs::write(&path, "of a file")?;
/// // SAFETY: no process changes the file, whose name is known to this one alone.
/// let file = unsafe { MappedFile::open(&path)? };
/// assert_eq!(file.as_ref(), b"of a file");
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct MappedFile {
    pub(super) base: NonNull<u8>,
    pub(super) len: usize,
}

impl MappedFile {
    /// Maps a file.
    ///
    /// # Errors
    ///
    /// If it cannot be opened or mapped, or is empty.
    ///
    /// # Safety
    ///
    /// No process changes or truncates the file while it is mapped. What of a private mapping
    /// follows the file and what does not is left open by the kernel, so that a change would be
    /// one behind a reference; and after a truncation reading ends the process.
    pub unsafe fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        let len =
            usize::try_from(file.metadata()?.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        if len == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is empty"));
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address the kernel picks; nothing else lives there. That
        // the file does not change under it is the caller's promise.
        let base = unsafe { mm::mmap(null_mut(), len, access, MapFlags::PRIVATE, &file, 0) }?;
        let base = NonNull::new(base.cast()).expect("the kernel never maps address zero unasked");
        Ok(Self { base, len })
    }

    /// The same without a file: whole pages of zeros, at least `bytes`.
    pub(super) fn anonymous(bytes: usize) -> Result<Self, MemoryError> {
        let (base, len, _) = MappingKind::default().map(bytes)?;
        Ok(Self { base, len })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives, and initialised by the file; written only
        // through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for MappedFile {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only way to it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, once, and no reference into it is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

impl std::fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MappedFile({} bytes)", self.len)
    }
}

// SAFETY: it owns its mapping, which any thread may use.
unsafe impl Send for MappedFile {}
// SAFETY: through a shared reference it can only be read.
unsafe impl Sync for MappedFile {}
