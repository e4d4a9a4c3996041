//! Graphs in files.

use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::cast_slice_mut;
use egret_net::buf::{Block, BlockMemory, MappedFile};

use super::error::GraphError;
use super::graph::Graph;
use super::object::Object;
use super::slot;

impl<Root: Object> Graph<Root> {
    /// Writes the graph to a file: beside it first, and in its place when all is written. What is
    /// there and no file, as a pipe, is written to as it is.
    ///
    /// # Errors
    ///
    /// If it cannot be written; a file that was there stays as it was.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = path.as_ref();
        if path.metadata().is_ok_and(|there| !there.is_file()) {
            return self.write_to(File::options().write(true).open(path)?);
        }
        let mut beside = path.as_os_str().to_owned();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        beside.push(format!(".{}-{number}.part", std::process::id()));
        // A file without an owner, whatever was left there under this name.
        let file = File::create_new(&beside)?;
        let written = self.write_to(file).and_then(|()| std::fs::rename(&beside, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&beside);
        }
        written
    }

    fn write_to(&self, mut file: File) -> io::Result<()> {
        let is_file = file.metadata()?.is_file();
        let head = self.head();
        let pieces = self.pieces(&head);
        let mut slices: Vec<_> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
        let mut left = &mut slices[..];
        while !left.is_empty() {
            match file.write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if is_file { file.sync_data() } else { Ok(()) }
    }

    /// Reads a graph from a file into memory of its own, as much as the file is long, and checks it
    /// there.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is no such graph.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, GraphError> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        let len = usize::try_from(len).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        let mut words = vec![0_u64; len / slot::ALIGN];
        file.read_exact(cast_slice_mut(&mut words))?;
        Self::from_words(words).map_err(|refused| refused.why)
    }

    /// The graph in a file that was mapped, where it is: only what is used is read from the disk.
    /// All objects are looked at once, before. What is written to it stays in this process.
    ///
    /// ```
    /// use egret_stream::graph::Graph;
    /// use egret_stream::net::buf::MappedFile;
    ///
    /// let path = std::env::temp_dir().join(format!("egret-mapped-{}", std::process::id()));
    /// Graph::new(7_u64).save(&path)?;
    /// // SAFETY: no process changes the file while it is mapped.
    /// let file = unsafe { MappedFile::open(&path) }?;
    /// let graph = Graph::<u64>::from_mapped(file)?;
    /// assert_eq!(*graph.root(), 7);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If it is no such graph.
    pub fn from_mapped(file: MappedFile) -> Result<Self, GraphError> {
        let block = Block::new(BlockMemory::File(file)).expect("a file is mapped to a page");
        Self::from_block(block, true).map_err(|refused| refused.0.into())
    }
}
