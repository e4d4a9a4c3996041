//! Two real processes: this test, started again as the answerer.

use std::cell::RefCell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::Duration;
use std::{env, fs};

use super::conformance::{all, nic, trusting};
use crate::buf::Pool;
use crate::conformance::{Case, Failure, Party, Profile, Role, meeting_over, run};
use crate::rt::{self, Deadline};
use crate::vi::{Address, Descriptor, Trust, ViError, ViOptions, Wait};

/// What the child is to do, with its name and this process's behind it.
const PART: &str = "EGRET_TEST_SHM_PART";
/// Not a case: sends for ever, and is killed.
const SENDER: &str = "sender";

/// A child that does not outlive its test.
#[derive(Debug)]
struct Process(Child);

impl Process {
    fn start(part: &str, names: &Names, stdin: Stdio) -> Self {
        let child = Command::new("/proc/self/exe")
            .args(["--exact", "fabric::shm::tests::processes::child", "--nocapture"])
            .env(PART, format!("{part}|{}|{}|{}", names.caller, names.answerer, names.trust))
            .stdin(stdin)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

#[derive(Debug)]
struct Names {
    caller: String,
    answerer: String,
    trust: Trust,
}

impl Names {
    fn new(trust: Trust) -> Self {
        let unique = rt::random();
        let (caller, answerer) = (format!("caller-{unique}"), format!("answerer-{unique}"));
        Self { caller, answerer, trust }
    }
}

fn profile(trust: Trust) -> Profile {
    let cooperating = trust == Trust::Cooperating;
    Profile { shareable: !cooperating, cooperating, ..Profile::default() }
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let [part, caller, answerer, trust] = part.split('|').collect::<Vec<_>>()[..] else { panic!() };
    let levels = [Trust::Isolated, Trust::Cooperating];
    let trust = levels.into_iter().find(|level| level.to_string() == trust).unwrap();
    if part == SENDER {
        send_for_ever(caller, answerer);
    }
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let meeting = meeting_over(UnixStream::from(stdin)).unwrap();
    let cases = all(&profile(trust));
    let case = cases.iter().find(|case| case.to_string() == part).unwrap();
    let party = Party::new(trusting(answerer, trust), caller, Role::Answerer, meeting);
    run(case, &profile(trust), vec![party]).unwrap();
}

/// Runs the caller here and the answerer in another process.
fn run_in_processes(case: &Case, trust: Trust) -> Result<(), Failure> {
    let names = Names::new(trust);
    let (here, there) = UnixStream::pair().unwrap();
    let process = Process::start(&case.to_string(), &names, OwnedFd::from(there).into());
    let process = Rc::new(RefCell::new(process));
    let victim = Rc::clone(&process);
    let caller = trusting(&names.caller, trust);
    let party = Party::new(caller, &names.answerer, Role::Caller, meeting_over(here).unwrap())
        .with_kill(move || victim.borrow_mut().kill());
    run(case, &profile(trust), vec![party])?;
    if !case.kills_answerer {
        let status = process.borrow_mut().0.wait().unwrap();
        assert!(status.success(), "{case}: the answerer says what is wrong");
    }
    Ok(())
}

fn all_in_processes(trust: Trust) {
    let cases = all(&profile(trust));
    let failures = cases.iter().filter_map(|case| run_in_processes(case, trust).err());
    let failures: Vec<String> = failures.map(|failure| failure.to_string()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conformance_in_two_processes() {
    all_in_processes(Trust::Isolated);
}

#[test]
fn conformance_in_two_processes_that_cooperate() {
    all_in_processes(Trust::Cooperating);
}

const MESSAGE: usize = 300_000;
const AT_ONCE: usize = 4;

/// The victim: it both sends from a pool and wants to receive.
fn send_for_ever(caller: &str, own: &str) -> ! {
    let nic = nic(own, Wait::Balanced);
    let to = Address::new(caller, "dying", 0);
    let vi = nic.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT).unwrap();
    let pool = Pool::builder().class(MESSAGE, 2 * AT_ONCE).shareable().build().unwrap();
    for _ in 0..AT_ONCE {
        vi.post_recv(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
        vi.post_send(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
    }
    loop {
        let sent = vi.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
        vi.post_send(Descriptor::new(sent.into_buf())).unwrap();
        while let Some(got) = vi.recv_queue().poll() {
            vi.post_recv(Descriptor::new(got.into_buf())).unwrap();
        }
    }
}

/// Descriptors and mappings of ours that are open.
fn footprint() -> (usize, usize) {
    let fds = fs::read_dir("/proc/self/fd").unwrap().count();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    (fds, maps.lines().filter(|line| line.contains("egret")).count())
}

/// Lets a child send for a while, then kills it, and looks at what is left.
fn survive(round: u64) {
    let names = Names::new(Trust::Isolated);
    let nic = nic(&names.caller, Wait::Balanced);
    let listener = nic.listen("dying", 0, &ViOptions::default()).unwrap();
    let mut victim = Process::start(SENDER, &names, Stdio::null());
    let vi = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let pool = Pool::builder().class(MESSAGE, 2 * AT_ONCE).shareable().build().unwrap();
    for _ in 0..AT_ONCE {
        vi.post_recv(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
        vi.post_send(Descriptor::new(pool.take(MESSAGE).unwrap())).unwrap();
    }
    for _ in 0..round % 10 {
        let got = vi.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap();
        vi.post_recv(Descriptor::new(got.into_buf())).unwrap();
    }
    victim.kill();
    let died = Deadline::In(Duration::from_secs(10));
    for queue in [vi.recv_queue(), vi.send_queue()] {
        while queue.outstanding() > 0 {
            let back = queue.wait(died).unwrap();
            let is_typed = matches!(back.status, Ok(()) | Err(ViError::PeerDied { .. }));
            assert!(is_typed, "{:?}", back.status);
        }
        while queue.poll().is_some() {}
    }
    // Everything may have come back well before the death was known.
    let until = died.until();
    while vi.error().is_none() && until > Some(rt::now()) {
        let seen = nic.poll();
        nic.wait(seen, Some(rt::now() + Duration::from_millis(10)));
    }
    assert!(matches!(vi.error(), Some(ViError::PeerDied { .. })), "{:?}", vi.error());
    let all: Vec<_> = (0..2 * AT_ONCE).map(|_| pool.take(MESSAGE).unwrap()).collect();
    drop((all, vi, listener, nic));
}

/// Alone in a process: other tests open descriptors too.
#[test]
fn a_peer_that_is_killed_leaves_nothing() {
    const ALONE: &str = "EGRET_TEST_SHM_ALONE";
    const NAME: &str = "fabric::shm::tests::processes::a_peer_that_is_killed_leaves_nothing";
    if env::var(ALONE).is_err() {
        let command =
            Command::new("/proc/self/exe").args(["--exact", NAME]).env(ALONE, "").output();
        let output = command.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    survive(0);
    let before = footprint();
    for round in 0..100 {
        survive(round);
    }
    assert_eq!(footprint(), before, "(descriptors, mappings)");
}
