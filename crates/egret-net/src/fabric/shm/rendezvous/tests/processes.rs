//! The same with real processes: this test, started again as a child.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, getrlimit, kill_process, setrlimit, waitpid,
};

use super::super::name::socket_name;
use super::super::peer::own_user;
use super::*;
use crate::fabric::shm::fault::{Fault, caught};
use crate::rt;

/// A child that does not outlive its test.
pub(super) struct Process(Option<Child>);

impl Process {
    pub(super) fn command(role: &str, host: &str) -> Command {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(CHILD)
            .env(ROLE, role)
            .env(HOST, host)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(super) fn start(role: &str, host: &str) -> Self {
        Self::of(Self::command(role, host).spawn().unwrap())
    }

    pub(super) const fn of(child: Child) -> Self {
        Self(Some(child))
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(self.0.as_ref().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits until it has done its part, and has found everything as it should be.
    pub(super) fn join(mut self) {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the child failed: {said}");
        assert!(said.contains("1 passed"), "no child ran: {said}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            _ = child.kill();
            _ = child.wait();
        }
    }
}

/// The arguments that make this program a child.
pub(super) const CHILD: [&str; 3] =
    ["--exact", "fabric::shm::rendezvous::tests::processes::child", "--nocapture"];
pub(super) const ROLE: &str = "EGRET_TEST_RENDEZVOUS_ROLE";
pub(super) const HOST: &str = "EGRET_TEST_RENDEZVOUS_HOST";

/// Not a test by itself: what the children do.
#[test]
fn child() {
    let (Ok(role), Ok(host)) = (std::env::var(ROLE), std::env::var(HOST)) else { return };
    match role.as_str() {
        "guest" => guest(&host),
        "stay" => stay(&host),
        "host" => be_host(&host),
        "stranger" => stranger(&host),
        "exhausted" => exhausted(&host),
        "wary" => namespaces::wary(&host),
        "unmapped" => namespaces::unmapped(&host),
        "alone" => namespaces::alone(&host),
        "squatter" => namespaces::squatter(&host),
        "relay" => proxy::relay(&host),
        "leave" => proxy::leave(&host),
        other => panic!("no role {other}"),
    }
}

/// Waits for a visitor, for as long as a test has patience.
pub(super) fn visitor(acceptor: &mut Acceptor) -> Result<ShmProvenPeer, RefusedPeer> {
    let until = rt::now() + Duration::from_secs(60);
    loop {
        assert!(becomes(&acceptor.fd(), PollFlags::IN, LONG), "nobody came");
        if let Some(visitor) = acceptor.poll_proven_peer(rt::now(), until)? {
            return Ok(visitor);
        }
    }
}

/// Repeats the handshake until there is an answer.
pub(super) fn answer(
    mut attempt: HandshakeAttempt,
    mine: &OfferedDescriptors<OwnedFd>,
) -> Result<AcceptedConnection, HandshakeAttemptError> {
    loop {
        assert!(becomes(&attempt.fd(), PollFlags::IN, LONG), "no answer");
        match attempt.poll(lend(mine))? {
            AttemptProgress::Accepted(accepted) => return Ok(accepted),
            AttemptProgress::Pending(again) => attempt = again,
        }
    }
}

/// A child that was let in and stays, with the connection to it.
fn one_who_stays(name: &str) -> (Process, ControlSocket) {
    let host = unique(name);
    let mut acceptor = open(&host).unwrap();
    let child = Process::start("stay", &host);
    let visitor = visitor(&mut acceptor).unwrap();
    assert_eq!(visitor.peer().pid, child.pid().as_raw_pid());
    let (control, _) = visitor.accept(&terms(), lend(&handles(""))).unwrap();
    (child, control)
}

fn stay(host: &str) {
    let accepted = answer(start_attempt(host), &handles("")).unwrap();
    while let Ok(None) = accepted.control.poll() {
        assert!(becomes(&accepted.control.fd(), PollFlags::IN, 2 * LONG), "forgotten");
    }
}

fn guest(host: &str) {
    let mine = handles("from the guest");
    let accepted = answer(start_attempt(host), &mine).unwrap();
    assert_eq!(text_of(&accepted.handles.control), "from the host");
    rustix::io::write(&accepted.handles.bell, &1_u64.to_ne_bytes()).unwrap();
    assert!(becomes(&accepted.control.fd(), PollFlags::IN, LONG), "no region");
    let (message, fds) = accepted.control.poll().unwrap().unwrap();
    assert_eq!(message, ControlMessage::Region { number: 5 });
    assert_eq!(text_of(&fds[0]), "a region");
    // Seen by the host, in the memory it was given when they met.
    rustix::io::pwrite(&mine.control, b"seen", 0).unwrap();
    let goodbye = ControlMessage::Close(CloseReason::Closed);
    assert_eq!(accepted.control.send(&goodbye, &[]), Ok(PacketSent::Sent));
}

#[test]
fn two_processes_meet_and_see_each_others_memory() {
    let host = unique("meet");
    let mut acceptor = open(&host).unwrap();
    let child = Process::start("guest", &host);
    let visitor = visitor(&mut acceptor).unwrap();
    assert_eq!(text_of(&visitor.handles.control), "from the guest");
    let (mine, region) = (handles("from the host"), handles("a region"));
    let (control, theirs) = visitor.accept(&terms(), lend(&mine)).unwrap();
    assert!(becomes(&mine.bell, PollFlags::IN, LONG), "the bell rings");
    let sent = control.send(&ControlMessage::Region { number: 5 }, &[region.control.as_fd()]);
    assert_eq!(sent, Ok(PacketSent::Sent));
    assert!(becomes(&control.fd(), PollFlags::IN, LONG), "no farewell");
    let heard = control.poll().unwrap().map(|(message, _)| message);
    assert_eq!(heard, Some(ControlMessage::Close(CloseReason::Closed)));
    assert_eq!(text_of(&theirs.control), "seen the guest");
    child.join();
    assert!(matches!(control.poll(), Err(ControlSocketError::PeerGone { .. })));
}

#[test]
fn a_killed_process_is_gone_at_once() {
    let (child, control) = one_who_stays("killed");
    assert!(control.poll().unwrap().is_none());
    child.signal(Signal::KILL);
    assert!(becomes(&control.fd(), PollFlags::IN, LONG), "its death was not seen");
    assert!(matches!(control.poll(), Err(ControlSocketError::PeerGone { .. })));
    let gone = control.send(&ControlMessage::Close(CloseReason::Closed), &[]).unwrap_err();
    let pid = child.pid().as_raw_pid();
    assert_eq!(gone, ControlSocketError::PeerGone { pid });
    assert!(becomes(&control.peer().pidfd().unwrap(), PollFlags::IN, LONG));
}

#[test]
fn a_stopped_process_is_not_gone() {
    let (child, control) = one_who_stays("stopped");
    child.signal(Signal::STOP);
    let (_, status) = waitpid(Some(child.pid()), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
    assert!(control.poll().unwrap().is_none());
    assert!(!control.is_gone());
    assert!(!becomes(&control.peer().pidfd().unwrap(), PollFlags::IN, 0));
    assert_eq!(
        control.send(&ControlMessage::Close(CloseReason::Closed), &[]),
        Ok(PacketSent::Sent)
    );
    child.signal(Signal::CONT);
    child.join();
    assert!(matches!(control.poll(), Err(ControlSocketError::PeerGone { .. })));
}

fn be_host(host: &str) {
    let mut acceptor = open(host).unwrap();
    // Whoever comes is left waiting.
    let _visitor = visitor(&mut acceptor).unwrap();
    rt::sleep(Duration::from_secs(2 * LONG.unsigned_abs()));
}

/// Whether a socket of this name exists on the machine.
fn is_named(host: &str) -> bool {
    let name = format!("@{}", socket_name(own_user(), host));
    fs::read_to_string("/proc/net/unix").unwrap().lines().any(|line| line.ends_with(&name))
}

#[test]
fn a_killed_host_leaves_nothing_behind() {
    let host = unique("host");
    let child = Process::start("host", &host);
    let mine = handles("");
    let mut tries = 0;
    let attempt = loop {
        match start(&host).unwrap() {
            AttemptStart::Started(attempt) => break attempt,
            AttemptStart::Nobody | AttemptStart::Busy => rt::sleep(Duration::from_millis(10)),
        }
        tries += 1;
        assert!(tries < 100 * LONG, "the host does not open");
    };
    assert!(is_named(&host));
    child.signal(Signal::KILL);
    let gone = answer(attempt, &mine).unwrap_err();
    assert_eq!(gone, HandshakeAttemptError::Gone { pid: child.pid().as_raw_pid() });
    drop(child);
    assert!(!is_named(&host));
    open(&host).unwrap();
    assert!(!is_named(&host), "the acceptor was closed again");
}

/// Connects as another user, honestly and not.
fn stranger(host: &str) {
    let address = SocketAddrUnix::new_abstract_name(host.as_bytes()).unwrap();
    let (mine, stance) = (handles(""), stance(Trust::Cooperating, ""));
    let error = HandshakeAttempt::start_at(&address, call("strange"), &stance).unwrap_err();
    assert!(
        matches!(error, HandshakeAttemptError::OtherUser(OtherUser::Number { theirs: 0, .. })),
        "{error}"
    );
    let dishonest = || {
        let attempt = started_attempt(
            HandshakeAttempt::start_at(&address, call("strange"), &stance).unwrap(),
        );
        let error = answer(attempt, &mine).unwrap_err();
        assert_eq!(error, refused(ConnectRefusal::OtherUser { uid: 0 }));
    };
    assert!(!caught(Fault::UserUnchecked, dishonest), "not refused as it should be");
}

#[test]
fn a_process_of_another_user_is_refused() {
    const NOBODY: u32 = 65534;
    if own_user() != 0 {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let host = unique("strange");
    let mut acceptor = open(&host).unwrap();
    let mut command = Process::command("stranger", &socket_name(0, &host));
    let child = match command.uid(NOBODY).gid(NOBODY).spawn() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            println!("skipped: user {NOBODY} may not run this test");
            return;
        }
        child => Process::of(child.unwrap()),
    };
    for _ in 0..2 {
        let away = visitor(&mut acceptor).unwrap_err();
        let pid = child.pid().as_raw_pid();
        assert_eq!(away.pid, pid);
        assert_eq!(away.why, OtherUser::Number { pid, theirs: NOBODY, ours: 0 }.into());
    }
    child.join();
}

/// An acceptor in a process that has no descriptors left.
fn exhausted(host: &str) {
    let mut acceptor = open(host).unwrap();
    let attempt = start_attempt(host);
    let mine = handles("");
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(3), ..limit }).unwrap();
    let away = acceptor.poll_proven_peer(at(1), at(9)).unwrap_err();
    assert_eq!(away.why, RefusedPeerCause::System(Errno::MFILE));
    assert!(away.to_string().contains("ulimit -n"), "{away}");
    // It rests instead of being woken for nothing, and then goes on.
    assert!(acceptor.poll_proven_peer(at(1), at(9)).unwrap().is_none());
    assert!(!becomes(&acceptor.fd(), PollFlags::IN, 0));
    assert!(acceptor.next_deadline().is_some_and(|next| next < at(2)));
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(acceptor.poll_proven_peer(at(2), at(9)).unwrap().is_none());
    let _attempt = not_yet(attempt, &mine);
    assert!(acceptor.poll_proven_peer(at(2), at(9)).unwrap().is_some());
}

#[test]
fn a_door_without_descriptors_rests() {
    Process::start("exhausted", &unique("exhausted")).join();
}
