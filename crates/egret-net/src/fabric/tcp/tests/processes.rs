//! Two real processes: this test, started again as the answerer.

use std::cell::RefCell;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use super::conformance::{V4, V6, all, has, nic};
use super::sealed::{SEALED, is_sealed};
use crate::conformance::{Case, Failure, Party, Profile, Role, meeting_over, run};
use crate::vi::Wait;

/// What the child is to do, where it is to listen, and where this process does.
const PART: &str = "EGRET_TEST_TCP_PART";

/// A child that does not outlive its test.
#[derive(Debug)]
pub(super) struct Process(pub Child);

impl Process {
    /// Starts this program again as `test`, with what it is told in `key`.
    pub(super) fn start(test: &str, key: &str, told: &str, stdin: Stdio) -> Self {
        let child = Command::new("/proc/self/exe")
            .args(["--exact", test, "--nocapture"])
            .env(key, told)
            .env(SEALED, if is_sealed() { "yes" } else { "" })
            .stdin(stdin)
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(super) fn kill(&mut self) {
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

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let [part, own, caller] = part.split('|').collect::<Vec<_>>()[..] else { panic!("{part}") };
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut socket = UnixStream::from(stdin);
    let nic = nic(own, Wait::Balanced);
    writeln!(socket, "{}", nic.host()).unwrap();
    let profile = Profile::default();
    let case = all(&profile).into_iter().find(|case| case.to_string() == part).unwrap();
    let party = Party::new(nic, caller, Role::Answerer, meeting_over(socket).unwrap());
    run(&case, &profile, vec![party]).unwrap();
}

/// Runs the caller here and the answerer in another process.
fn run_in_processes(case: &Case, host: &str) -> Result<(), Failure> {
    let nic = nic(host, Wait::Balanced);
    let (here, there) = UnixStream::pair().unwrap();
    let told = format!("{case}|{host}|{}", nic.host());
    const TEST: &str = "fabric::tcp::tests::processes::child";
    let process = Process::start(TEST, PART, &told, OwnedFd::from(there).into());
    let mut answerer = String::new();
    BufReader::with_capacity(1, &here).read_line(&mut answerer).unwrap();
    let process = Rc::new(RefCell::new(process));
    let victim = Rc::clone(&process);
    let party = Party::new(nic, answerer.trim(), Role::Caller, meeting_over(here).unwrap())
        .with_kill(move || victim.borrow_mut().kill());
    run(case, &Profile::default(), vec![party])?;
    if !case.kills_answerer {
        let status = process.borrow_mut().0.wait().unwrap();
        assert!(status.success(), "{case}: the answerer says what is wrong");
    }
    Ok(())
}

pub(super) fn all_in_processes(host: &str) {
    let cases = all(&Profile::default());
    let failures = cases.iter().filter_map(|case| run_in_processes(case, host).err());
    let failures: Vec<String> = failures.map(|failure| failure.to_string()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn conformance_in_two_processes() {
    all_in_processes(V4);
}

#[test]
fn conformance_in_two_processes_over_ipv6() {
    if has(V6) {
        all_in_processes(V6);
    }
}
