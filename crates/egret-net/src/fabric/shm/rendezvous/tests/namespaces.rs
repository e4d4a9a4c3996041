//! Users of other user namespaces, and names that another user has.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::SocketAddrUnix;

use super::super::name::socket_name;
use super::super::peer::{UserNamespace, judge, own_user};
use super::processes::{CHILD, HOST, Process, ROLE, answer, visitor};
use super::*;
use crate::fabric::shm::fault::{Fault, caught};
use crate::fabric::shm::socket::seqpacket;
use crate::rt;

const OVERFLOW: u32 = 65534;

pub(super) fn a_number_is_not_a_user() {
    let other = OtherUser::Namespace { pid: 7, user: 1000 };
    assert_eq!(judge(7, 1000, UserNamespace::Other, OVERFLOW), Err(other));
    let unknown = OtherUser::Unknown { pid: 7, user: OVERFLOW };
    assert_eq!(judge(7, OVERFLOW, UserNamespace::Unknown, OVERFLOW), Err(unknown));
}

#[test]
fn a_peer_of_the_same_user_is_accepted() {
    assert_eq!(judge(7, 1000, UserNamespace::Same, OVERFLOW), Ok(()));
    assert_eq!(
        judge(7, OVERFLOW, UserNamespace::Same, OVERFLOW),
        Ok(()),
        "one namespace, one user"
    );
    assert_eq!(
        judge(7, 1000, UserNamespace::Unknown, OVERFLOW),
        Ok(()),
        "the kernel gave it its number"
    );
    assert_eq!(PeerProcess::this().check_user(), Ok(()));
    a_number_is_not_a_user();
}

/// This program as a child of user `user`, in a user namespace in which that user has no number.
/// The file comes by a descriptor: its folders may be closed to that user.
fn apart(role: &str, host: &str, user: u32) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "/proc/self/fd/0"]).args(CHILD).env(ROLE, role).env(HOST, host);
    command.stdin(File::open("/proc/self/exe").unwrap());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).uid(user).gid(user);
    command
}

/// Why there is no such child to be had.
fn missing() -> Option<String> {
    if own_user() != 0 {
        return Some("only root can start processes of other users".to_owned());
    }
    let mut probe = Command::new("unshare");
    match probe.args(["--user", "true"]).uid(USER).gid(USER).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(format!("unshare: {error}")),
    }
}

/// Two users that nobody is.
const USER: u32 = 61_234;
const OTHER: u32 = 61_235;

/// Turns two away, whose user it cannot believe.
pub(super) fn wary(host: &str) {
    let mut acceptor = open(host).unwrap();
    for _ in 0..2 {
        let away = visitor(&mut acceptor).unwrap_err();
        let RefusedPeerCause::OtherUser(why) = away.why else { panic!("{away}") };
        let is_apart = own_user() == OVERFLOW;
        match why {
            // This side cannot see the other's namespace.
            OtherUser::Unknown { pid, user: OVERFLOW } => assert!(is_apart && pid == away.pid),
            // It is this user who made that namespace.
            OtherUser::Namespace { pid, user: USER } => assert!(!is_apart && pid == away.pid),
            other => panic!("{other}"),
        }
    }
}

/// Connects, honestly and not, where another user has the number that this user is seen by.
pub(super) fn unmapped(name: &str) {
    assert_eq!(own_user(), OVERFLOW);
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let (mine, stance) = (handles(""), plain());
    let until = rt::now() + Duration::from_secs(LONG.unsigned_abs());
    let error = loop {
        match HandshakeAttempt::start_at(&address, call("unmapped"), &stance) {
            Ok(AttemptStart::Nobody) => {
                assert!(rt::now() < until, "the host does not open");
                rt::sleep(Duration::from_millis(5));
            }
            started => break started.unwrap_err(),
        }
    };
    let is_seen = matches!(
        error,
        HandshakeAttemptError::OtherUser(OtherUser::Unknown { user: OVERFLOW, .. })
    );
    assert!(is_seen, "{error}");
    let dishonest = || {
        let attempt = started_attempt(
            HandshakeAttempt::start_at(&address, call("unmapped"), &stance).unwrap(),
        );
        let why = answer(attempt, &mine).unwrap_err();
        let is_refused = matches!(
            why,
            HandshakeAttemptError::Handshake(HandshakeError::Refused(
                ConnectRefusal::OtherUser { .. }
            ))
        );
        assert!(is_refused, "{why}");
    };
    assert!(!caught(Fault::NamespaceUnchecked, dishonest), "not refused as it should be");
}

/// Meets itself, as a user without number.
pub(super) fn alone(host: &str) {
    assert_eq!(own_user(), OVERFLOW);
    let mut acceptor = open(host).unwrap();
    let mine = handles("");
    let (attempt, visitor) = visit(&mut acceptor, start_attempt(host), &mine);
    let (_control, _) = visitor.accept(&terms(), lend(&handles(""))).unwrap();
    drop(accepted(attempt, &mine));
}

#[test]
fn an_unmapped_user_is_nobody_elses_user() {
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    // Both see the same number of each other, and it is nobody's.
    let host = unique("unmapped");
    let wary = Process::of(apart("wary", &host, USER).spawn().unwrap());
    let name = socket_name(OVERFLOW, &host);
    Process::of(apart("unmapped", &name, OTHER).spawn().unwrap()).join();
    wary.join();
    // The kernel's number is right, and the namespace is another.
    let host = unique("mapped");
    let mut command = Process::command("wary", &host);
    command.stdin(File::open("/proc/self/exe").unwrap()).uid(USER).gid(USER);
    let wary = Process::of(command.spawn().unwrap());
    let name = socket_name(USER, &host);
    Process::of(apart("unmapped", &name, USER).spawn().unwrap()).join();
    wary.join();
    // In one namespace it is one user.
    Process::of(apart("alone", &unique("alone"), USER).spawn().unwrap()).join();
}

/// Has a name that another user will want, until its input ends.
pub(super) fn squatter(name: &str) {
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    let listener = seqpacket().unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    println!("\nhas it");
    std::io::read_to_string(std::io::stdin()).unwrap();
}

#[test]
fn a_name_taken_by_another_user_is_reported_as_such() {
    use std::io::BufRead;

    let host = unique("own");
    let _own = open(&host).unwrap();
    assert_eq!(open(&host).unwrap_err(), AcceptorError::Taken { host: host.clone() });
    assert_eq!(other_holder(&host), None, "it is this user's");
    assert_eq!(other_holder(&unique("free")), None);
    if own_user() != 0 {
        println!("skipped: only root can start a process of another user");
        return;
    }
    let host = unique("squatted");
    let mut command = Process::command("squatter", &socket_name(0, &host));
    let child = command.stdin(Stdio::piped()).uid(USER).gid(USER).spawn();
    let mut child = match child {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            println!("skipped: user {USER} may not run this test");
            return;
        }
        child => child.unwrap(),
    };
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    let pid = i32::try_from(child.id()).unwrap();
    let _child = Process::of(child);
    let mut lines = std::io::BufReader::new(stdout).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "has it"));
    assert_eq!(open(&host).unwrap_err(), AcceptorError::Taken { host: host.clone() });
    let holder = OtherUser::Number { pid, theirs: USER, ours: 0 };
    assert_eq!(other_holder(&host), Some(holder));
    let options = crate::vi::NicOptions::new(&host);
    let why = crate::fabric::Fabrics::default().open("shm", options).unwrap_err();
    let crate::fabric::OpenError::TakenByOther { user, .. } = &why else { panic!("{why}") };
    assert_eq!(*user, USER);
    assert!(why.to_string().contains(&format!("process {pid} of user {USER}")), "{why}");
    // Whoever connects there talks to nobody.
    assert_eq!(start(&host).unwrap_err(), HandshakeAttemptError::OtherUser(holder));
    drop(stdin);
}
