//! The conformance suite over `udp` in two processes, of which one may die.

use std::cell::RefCell;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use crate::conformance::{Case, Failure, Party, Profile, Role, cases, meeting_over, run};
use crate::fabric::Fabric;
use crate::fabric::udp::UdpFabric;
use crate::vi::Nic;

fn nic() -> Nic {
    UdpFabric.open(&"".into()).unwrap()
}

fn all() -> Vec<Case> {
    let cases = cases(&nic().limits(), &Profile::default());
    assert!(cases.len() > 60, "{}", cases.len());
    cases
}

/// What the child is to do: a case, and the caller's host behind it.
const PART: &str = "EGRET_TEST_WINDOW_PART";

/// A child that does not outlive its test.
#[derive(Debug)]
struct Process(Child);

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
    let (part, caller) = part.split_once('|').unwrap();
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut socket = UnixStream::from(stdin);
    let nic = nic();
    writeln!(socket, "{}", nic.host()).unwrap();
    let case = all().into_iter().find(|case| case.to_string() == part).unwrap();
    let party = Party::new(nic, caller, Role::Answerer, meeting_over(socket).unwrap());
    run(&case, &Profile::default(), vec![party]).unwrap();
}

/// Runs the caller here and the answerer in another process.
fn run_in_processes(case: &Case) -> Result<(), Failure> {
    let nic = nic();
    let (here, there) = UnixStream::pair().unwrap();
    let child = Command::new("/proc/self/exe")
        .args(["--exact", "fabric::window::tests::processes::child", "--nocapture"])
        .env(PART, format!("{case}|{}", nic.host()))
        .stdin(OwnedFd::from(there))
        .stdout(Stdio::null())
        .spawn();
    let process = Rc::new(RefCell::new(Process(child.unwrap())));
    let mut answerer = String::new();
    BufReader::with_capacity(1, &here).read_line(&mut answerer).unwrap();
    let victim = Rc::clone(&process);
    let party = Party::new(nic, answerer.trim(), Role::Caller, meeting_over(here).unwrap())
        .with_kill(move || victim.borrow_mut().0.kill().unwrap());
    run(case, &Profile::default(), vec![party])?;
    if !case.kills_answerer {
        let status = process.borrow_mut().0.wait().unwrap();
        assert!(status.success(), "{case}: the answerer says what is wrong");
    }
    Ok(())
}

#[test]
fn conformance_in_two_processes() {
    let failures = all().into_iter().filter_map(|case| run_in_processes(&case).err());
    let failures: Vec<String> = failures.map(|failure| failure.to_string()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
