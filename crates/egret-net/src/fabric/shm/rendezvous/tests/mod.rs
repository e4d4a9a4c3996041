//! What the tests of the rendezvous share.

mod crowd;
mod meeting;
mod planted;
mod processes;
mod proxy;
mod texts;
mod trust;
mod wire;

use std::fs::File;
use std::io::{PipeReader, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
    sendmsg, socketpair,
};

use super::socket::Socket;
use super::*;
use crate::rt::Instant;
use crate::vi::{Agreed, Hello, Reliability, Secret};

/// A name that no other test has, in this process or another.
fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("test-{}-{number}-{name}", std::process::id())
}

fn sockets() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

fn control_of(fd: OwnedFd) -> Control {
    let socket = Socket::new(fd);
    let peer = Peer::of(&socket).unwrap();
    Control::new(socket, peer)
}

/// Both ends of a connection that is made.
fn pair() -> (Control, Control) {
    let (near, far) = sockets();
    (control_of(near), control_of(far))
}

/// An acceptor that asks for nothing.
fn open(host: &str) -> Result<Acceptor, AcceptorError> {
    Acceptor::open(host, Stance::default())
}

fn terms() -> Terms {
    Terms { depth: 64, control_bytes: 0x2_0000 }
}

fn greeting(host: &str) -> Greeting {
    let hello = Hello { reliability: Reliability::Delivery, service: "grid".into(), tag: 7 };
    Greeting { hello, host: host.into(), terms: terms(), asks: None }
}

/// Descriptors whose memory says `text`.
fn handles(text: &str) -> Handles<OwnedFd> {
    let memory = || {
        let fd = memfd_create("egret-test", MemfdFlags::CLOEXEC).unwrap();
        let mut file = File::from(fd);
        file.write_all(text.as_bytes()).unwrap();
        OwnedFd::from(file)
    };
    let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    Handles { control: memory(), bell }
}

fn lend(handles: &Handles<OwnedFd>) -> Handles<BorrowedFd<'_>> {
    let [control, bell] = handles.borrowed();
    Handles { control, bell }
}

/// What the memory behind `fd` says.
fn text_of(fd: &OwnedFd) -> String {
    let file = File::from(fd.try_clone().unwrap());
    let mut bytes = [0; 64];
    let len = file.read_at(&mut bytes, 0).unwrap();
    String::from_utf8(bytes[..len].to_vec()).unwrap()
}

/// Sends any bytes with any number of descriptors, as nobody honest would.
fn send_raw(to: &impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(32))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    sendmsg(to, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// Notices whether the descriptors made of it are closed everywhere.
struct Tripwire(PipeReader);

impl Tripwire {
    fn new() -> (Self, OwnedFd) {
        let (read, write) = std::io::pipe().unwrap();
        (Self(read), write.into())
    }

    /// A child that is just being started may hold a copy for a moment.
    fn assert_closed(&self) {
        assert!(becomes(&self.0, PollFlags::HUP, 3), "a descriptor was left open");
    }
}

/// Waits until one of `flags` is true of `fd`, at most so many seconds.
fn becomes(fd: &impl AsFd, flags: PollFlags, seconds: i64) -> bool {
    let mut fds = [PollFd::new(fd, flags)];
    let patience = Timespec { tv_sec: seconds, tv_nsec: 0 };
    poll(&mut fds, Some(&patience)).unwrap();
    fds[0].revents().intersects(flags)
}

/// The moment `seconds` after time began; acceptors know no other clock.
const fn at(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn knock(host: &str, handles: &Handles<OwnedFd>) -> Knock {
    match Knock::start(host, &greeting("caller"), lend(handles), &Secret::none()).unwrap() {
        Started::Knocking(knock) => knock,
        other => panic!("{other:?}"),
    }
}

/// A patience no test outlasts.
const LONG: i64 = 30;
