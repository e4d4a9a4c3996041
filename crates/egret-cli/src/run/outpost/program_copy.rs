//! The program of a job that is copied to another machine: in memory there, which has no name in any file system and goes with
//! the outpost, however that ends.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use anyhow::{Context, Result};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use rustix::process::getpid;

/// A copy, from its first bytes on.
#[derive(Debug)]
pub(super) struct ProgramCopy {
    file: Option<File>,
    bytes: u64,
    /// Why the copy cannot be made.
    failed: Option<io::Error>,
}

impl ProgramCopy {
    pub(super) fn new() -> Self {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let made = match memfd_create(NAME, flags | MemfdFlags::EXEC) {
            // An older system, where all may be executed.
            Err(Errno::INVAL) => memfd_create(NAME, flags),
            made => made,
        };
        match made {
            Ok(file) => Self { file: Some(file.into()), bytes: 0, failed: None },
            Err(why) => Self { file: None, bytes: 0, failed: Some(why.into()) },
        }
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        let Some(file) = &mut self.file else { return };
        self.bytes += bytes.len() as u64;
        if let Err(why) = file.write_all(bytes) {
            (self.file, self.failed) = (None, Some(why));
        }
    }

    /// Where the whole program can be started from as long as this value is there.
    pub(super) fn path(&self) -> Result<PathBuf> {
        let failed = || format!("copying the program, of which {} bytes have come", self.bytes);
        if let Some(why) = self.failed.as_ref().filter(|_| self.bytes == 0) {
            let hint =
                format!("{why}; does this machine forbid programs in memory (vm.memfd_noexec=2)?");
            return Err(io::Error::new(why.kind(), hint))
                .context("making memory for a copied program");
        }
        if let Some(why) = &self.failed {
            return Err(io::Error::new(why.kind(), why.to_string())).with_context(failed);
        }
        let file = self.file.as_ref().with_context(failed)?;
        // All processes start from the same bytes.
        let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        fcntl_add_seals(file, all).with_context(failed)?;
        Ok(format!("/proc/{}/fd/{}", getpid().as_raw_pid(), file.as_raw_fd()).into())
    }
}

/// What its processes see as the name of their file.
const NAME: &str = "program";

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_copy_is_started_like_the_program() {
        let mut copy = ProgramCopy::new();
        let program = std::fs::read("/bin/echo").unwrap();
        program.chunks(1000).for_each(|piece| copy.add(piece));
        let output = Command::new(copy.path().unwrap()).arg("a copy").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "a copy\n");
        let mut script = ProgramCopy::new();
        script.add(b"#!/bin/sh\necho script $1\n");
        let output = Command::new(script.path().unwrap()).arg("ran").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "script ran\n");
        script.add(b"more");
        let why = script.path().unwrap_err();
        assert!(format!("{why:#}").contains("Operation not permitted"), "it is sealed: {why:#}");
    }
}
