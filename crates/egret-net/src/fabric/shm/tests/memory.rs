use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use super::shared;
use crate::buf::{Pool, Region};
use crate::fabric::shm::foreign::{ForeignError, ForeignMemory, OutOfBounds};
use crate::fabric::shm::memory::OwnMemory;

#[test]
fn a_peer_sees_what_is_written() {
    let (own, foreign) = shared(5000);
    assert_eq!((own.len(), foreign.len()), (8192, 8192), "whole pages");
    own.word(4096).store(7, Release);
    assert_eq!(foreign.load(4096, Acquire), Some(7));
    own.copy_in(8180, b"at the end..");
    let mut seen = [0; 12];
    foreign.copy_out(8180, &mut seen).unwrap();
    assert_eq!(&seen, b"at the end..");
}

#[test]
fn a_peer_sees_the_buffers_of_a_sealed_pool() {
    let pool = Pool::builder().class(64, 4).shareable().build().unwrap();
    let fd = pool.region().fd().unwrap().try_clone_to_owned().unwrap();
    let foreign = ForeignMemory::map(fd, u64::MAX).unwrap();
    let mut buf = pool.take(5).unwrap();
    buf.bytes_mut().copy_from_slice(b"egret");
    let mut seen = [0; 5];
    foreign.copy_out(buf.offset_in_region() as u64, &mut seen).unwrap();
    assert_eq!(&seen, b"egret");
}

/// What cooperating peers share is nothing to read from one that may be hostile.
#[test]
fn a_file_for_cooperating_peers_is_refused() {
    let region = Region::builder(4096).cooperating().map().unwrap();
    let fd = region.cooperating_fd().unwrap().try_clone_to_owned().unwrap();
    let error = refused(fd, 4096);
    assert!(matches!(&error, ForeignError::Unsealed { missing } if missing == "written by others"));
}

#[test]
fn a_peer_cannot_write_shared_memory() {
    let (own, _foreign) = shared(4096);
    assert!(rustix::io::pwrite(own.fd(), b"mine", 0).is_err());
    assert!(ftruncate(own.fd(), 0).is_err());
    assert!(ftruncate(own.fd(), 8192).is_err());
    assert!(fcntl_add_seals(own.fd(), SealFlags::WRITE).is_err());
}

#[test]
fn a_peer_cannot_name_what_is_not_there() {
    ends_are_ends();
}

pub(super) fn ends_are_ends() {
    let (_own, foreign) = shared(4096);
    assert_eq!(foreign.copy_out(4096, &mut []), Ok(()));
    for (offset, bytes) in [(4097, 0), (4096, 1), (0, 4097), (4095, 2), (u64::MAX, 1)] {
        let outside = OutOfBounds { offset, bytes, len: 4096 };
        assert_eq!(foreign.copy_out(offset, &mut vec![0; bytes]), Err(outside));
    }
    for offset in [1, 7, 4089, 4096, u64::MAX, u64::MAX - 7] {
        assert_eq!(foreign.load(offset, Relaxed), None, "{offset}");
    }
    assert_eq!(foreign.load(4088, Relaxed), Some(0));
}

#[test]
fn a_file_that_is_not_sealed_is_refused() {
    unsealed_is_refused();
}

pub(super) fn unsealed_is_refused() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    for (left_out, what) in [
        (SealFlags::SHRINK, "shrunk"),
        (SealFlags::GROW, "grown"),
        (SealFlags::FUTURE_WRITE, "written by others"),
        (SealFlags::SEAL, "sealed further"),
    ] {
        let error = refused(file(4096, all - left_out), 4096);
        assert!(matches!(&error, ForeignError::Unsealed { missing } if missing == what), "{error}");
    }
    let error = refused(file(4096, SealFlags::empty()), 4096).to_string();
    assert!(error.contains("shrunk, grown, written by others, sealed further"), "{error}");
    ForeignMemory::map(file(4096, all), 4096).expect("nothing is missing");
    let frozen = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    ForeignMemory::map(file(4096, frozen), 4096).expect("nobody at all can write it");
}

#[test]
fn a_file_of_the_wrong_size_is_refused() {
    let all = SealFlags::SHRINK | SealFlags::GROW | SealFlags::FUTURE_WRITE | SealFlags::SEAL;
    for bytes in [0, 1, 4095, 4097] {
        let error = refused(file(bytes, all), u64::MAX);
        assert!(matches!(error, ForeignError::NotPages { bytes: given } if given == bytes));
    }
    let error = refused(file(8192, all), 8191).to_string();
    assert_eq!(error, "the peer's memory file has 8192 bytes where at most 8191 are allowed");
    ForeignMemory::map(file(8192, all), 8192).expect("exactly as much as is allowed");
}

#[test]
fn what_is_not_memory_is_refused() {
    let null = std::fs::File::open("/dev/null").unwrap();
    let (pipe, _) = std::io::pipe().unwrap();
    for fd in [OwnedFd::from(null), OwnedFd::from(pipe)] {
        assert!(matches!(refused(fd, u64::MAX), ForeignError::NotMemory { .. }));
    }
}

#[test]
fn shared_memory_is_unmapped_with_the_last_handle() {
    let own = OwnMemory::new(4096).unwrap();
    let inode = rustix::fs::fstat(own.fd()).unwrap().st_ino.to_string();
    let maps = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.lines().filter(|line| line.split_whitespace().nth(4) == Some(&inode)).count()
    };
    let foreign = super::foreign_of(&own);
    let other = foreign.clone();
    assert_eq!(maps(), 2);
    drop((own, foreign));
    assert_eq!(maps(), 1);
    assert_eq!(other.load(0, Relaxed), Some(0), "the file lives on");
    drop(other);
    assert_eq!(maps(), 0);
}

#[test]
#[should_panic(expected = "2 bytes at 4095 of 4096")]
fn our_own_range_is_asserted() {
    OwnMemory::new(4096).unwrap().copy_in(4095, &[0; 2]);
}

#[test]
#[should_panic(expected = "not aligned")]
fn our_own_word_is_asserted() {
    OwnMemory::new(4096).unwrap().word(4);
}

fn refused(fd: OwnedFd, max: u64) -> ForeignError {
    ForeignMemory::map(fd, max).map(drop).expect_err("it must be refused")
}

fn file(bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}
