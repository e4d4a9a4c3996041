//! The conformance suite: two nics in one process, and two processes.

use std::cell::{Cell, RefCell};
use std::env;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::conformance::{Case, Failure, Meeting, Party, Profile, Role, cases, run};
use crate::fabric::Fabric;
use crate::fabric::udp::UdpDatagrams;
use crate::rt;
use crate::vi::{Encrypt, Nic, NicOptions, Wait};

pub(super) fn nic(host: &str, wait: Wait) -> Nic {
    nic_that(host, wait, Encrypt::BetweenMachines)
}

fn nic_that(host: &str, wait: Wait, encrypt: Encrypt) -> Nic {
    UdpDatagrams.open(&NicOptions::new(host).wait(wait).encrypt(encrypt)).unwrap()
}

/// Of one level, and on loopback nothing is lost.
pub(super) fn all(profile: &Profile) -> Vec<Case> {
    let cases = cases(&nic("", Wait::Frugal).limits(), profile);
    assert!(cases.len() > 12 && cases.iter().all(|case| !case.level.is_reliable()));
    cases
}

/// A meeting of two threads.
#[derive(Debug)]
struct Threads {
    counts: Arc<[AtomicU64; 2]>,
    own: usize,
}

impl Meeting for Threads {
    fn come(&self) -> u64 {
        self.counts[self.own].fetch_add(1, Ordering::SeqCst) + 1
    }

    fn other(&self) -> u64 {
        self.counts[1 - self.own].load(Ordering::SeqCst)
    }
}

/// Runs each side of a case on a thread of its own.
fn run_on_threads(case: Case, profile: &Profile, nics: [Nic; 2]) -> Result<(), Failure> {
    let [caller, answerer] = nics;
    let (here, there) = (caller.host().to_owned(), answerer.host().to_owned());
    let counts = Arc::new([const { AtomicU64::new(0) }; 2]);
    let other = {
        let (profile, meeting) = (profile.clone(), Threads { counts: Arc::clone(&counts), own: 1 });
        rt::spawn("answerer", move || {
            let party = Party::new(answerer, &here, Role::Answerer, Box::new(meeting));
            run(&case, &profile, vec![party])
        })
        .unwrap()
    };
    let meeting = Box::new(Threads { counts, own: 0 });
    let result = run(&case, profile, vec![Party::new(caller, &there, Role::Caller, meeting)]);
    let other = other.join().unwrap();
    result.and(other)
}

fn all_on_threads(host: &str, wait: Wait, encrypt: Encrypt) {
    let profile = Profile { kills: false, ..Profile::default() };
    // One end that wants it is enough.
    let nics = || [nic_that(host, wait, encrypt), nic(host, wait)];
    let run = |case: Case| {
        let started = rt::now();
        let failure = run_on_threads(case, &profile, nics()).err();
        // A wake-up that was lost is made up for by the deadline of what was waited for.
        let waited = rt::now() - started;
        assert!(waited < profile.patience, "{case} took {waited:?}");
        failure
    };
    let failures: Vec<_> = all(&profile).into_iter().filter_map(run).collect();
    let failures: Vec<String> = failures.iter().map(Failure::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conformance_on_two_threads() {
    all_on_threads("", Wait::Balanced, Encrypt::BetweenMachines);
}

#[test]
fn conformance_sealed() {
    all_on_threads("", Wait::Balanced, Encrypt::Always);
}

#[test]
fn conformance_asleep_over_ipv6() {
    if std::net::UdpSocket::bind("[::1]:0").is_err() {
        println!("skipped: no IPv6 here");
        return;
    }
    all_on_threads("::1", Wait::Frugal, Encrypt::BetweenMachines);
}

/// What the child is to do: a case, and the caller's host behind it.
const PART: &str = "EGRET_TEST_UDP_PART";

/// A child that does not outlive its test.
#[derive(Debug)]
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// A meeting over a socket: a byte each time.
#[derive(Debug)]
struct Bytes {
    socket: RefCell<UnixStream>,
    own: Cell<u64>,
    other: Cell<u64>,
}

impl Bytes {
    fn new(socket: UnixStream) -> Box<Self> {
        socket.set_nonblocking(true).unwrap();
        Box::new(Self { socket: RefCell::new(socket), own: Cell::new(0), other: Cell::new(0) })
    }
}

impl Meeting for Bytes {
    fn come(&self) -> u64 {
        _ = self.socket.borrow_mut().write(&[1]);
        self.own.set(self.own.get() + 1);
        self.own.get()
    }

    fn other(&self) -> u64 {
        match self.socket.borrow_mut().read(&mut [0; 64]) {
            Ok(came) => self.other.set(self.other.get() + came as u64),
            Err(why) => assert_eq!(why.kind(), ErrorKind::WouldBlock),
        }
        self.other.get()
    }
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let (part, caller) = part.split_once('|').unwrap();
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut socket = UnixStream::from(stdin);
    let nic = nic("", Wait::Balanced);
    writeln!(socket, "{}", nic.host()).unwrap();
    let profile = Profile::default();
    let cases = all(&profile);
    let case = cases.iter().find(|case| case.to_string() == part).unwrap();
    let party = Party::new(nic, caller, Role::Answerer, Bytes::new(socket));
    run(case, &profile, vec![party]).unwrap();
}

/// Runs the caller here and the answerer in another process.
fn run_in_processes(case: &Case, profile: &Profile) -> Result<(), Failure> {
    let caller = nic("", Wait::Balanced);
    let (here, there) = UnixStream::pair().unwrap();
    let child = Command::new("/proc/self/exe")
        .args(["--exact", "fabric::udp::tests::conformance::child", "--nocapture"])
        .env(PART, format!("{case}|{}", caller.host()))
        .stdin(OwnedFd::from(there))
        .stdout(Stdio::null())
        .spawn();
    let mut process = Process(child.unwrap());
    // The child says where it is, and no more before the parent comes.
    let mut answerer = String::new();
    BufReader::with_capacity(1, &here).read_line(&mut answerer).unwrap();
    let party = Party::new(caller, answerer.trim(), Role::Caller, Bytes::new(here));
    run(case, profile, vec![party])?;
    let status = process.0.wait().unwrap();
    assert!(status.success(), "{case}: the answerer says what is wrong");
    Ok(())
}

#[test]
fn conformance_in_two_processes() {
    let profile = Profile::default();
    let failures = all(&profile);
    let failures = failures.iter().filter_map(|case| run_in_processes(case, &profile).err());
    let failures: Vec<String> = failures.map(|failure| failure.to_string()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
