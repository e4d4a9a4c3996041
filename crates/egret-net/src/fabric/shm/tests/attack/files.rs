//! Descriptors that nobody may map, or ring.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with, socketpair,
};

use crate::fabric::shm::layout::BYTES;
use crate::fabric::shm::memory::OwnMemory;

pub(super) const ALL: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// A memory file of so many bytes with these seals.
pub(super) fn file(bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = memfd_create("hostile", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// What is not a sealed memory file of a size that may be mapped.
pub(super) fn unfit() -> Vec<OwnedFd> {
    let bytes = BYTES as u64;
    let (pipe, _) = std::io::pipe().unwrap();
    let mut unfit: Vec<OwnedFd> = vec![
        file(bytes, SealFlags::empty()),
        file(bytes, ALL - SealFlags::SHRINK),
        file(bytes, ALL - SealFlags::GROW),
        file(bytes, ALL - SealFlags::FUTURE_WRITE),
        file(bytes, ALL - SealFlags::SEAL),
        file(0, ALL),
        file(bytes + 1, ALL),
        file((1 << 38) + 4096, ALL),
        pipe.into(),
        eventfd(0, EventfdFlags::CLOEXEC).unwrap(),
        memfd_create("hostile", MemfdFlags::CLOEXEC).unwrap(),
    ];
    for path in ["/dev/null", "/dev/zero", "/", "/proc/self/exe"] {
        unfit.push(File::open(path).unwrap().into());
    }
    unfit
}

/// Memory that is sealed as it must be, and still not what a connection needs.
pub(super) fn unfit_for_control() -> Vec<OwnedFd> {
    let mut files = unfit();
    files.extend([file(4096, ALL), file(BYTES as u64 - 4096, ALL), file(2 << 20, ALL)]);
    files
}

/// What is not a local stream socket.
pub(super) fn unfit_bells() -> Vec<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let packets = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let datagrams = socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap();
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut unfit = unfit();
    unfit.extend([packets.0, datagrams.0, tcp.into()]);
    unfit
}

/// Whoever reads the memory keeps what was there: its owner cannot take a page away.
pub(super) fn assert_stays(own: &OwnMemory) {
    assert!(ftruncate(own.fd(), 0).is_err(), "truncated");
    assert!(ftruncate(own.fd(), 1 << 30).is_err(), "grown");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert!(fallocate(own.fd(), hole, 0, 4096).is_err(), "a hole");
    assert!(fcntl_add_seals(own.fd(), SealFlags::WRITE).is_err(), "sealed further");
    assert!(rustix::io::pwrite(own.fd(), b"from elsewhere", 0).is_err(), "written by the file");
}

/// Connects to the socket of this name, and begins no handshake.
pub(super) fn connect(name: &str) -> Option<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).ok()?;
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    rustix::net::connect(&fd, &address).ok().map(|()| fd)
}
