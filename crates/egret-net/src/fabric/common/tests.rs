//! The conformance suite in the tests of fabrics: on two threads, and in two processes.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use crate::conformance::{
    Case, Failure, Party, Profile, Role, meeting_over, run, run_all, run_on_threads,
};
use crate::rt;
use crate::vi::Nic;

/// Panics with what failed, if a case did.
pub(in crate::fabric) fn all_pass(
    cases: Vec<Case>,
    play: impl Fn(&Case) -> Result<(), Failure> + Send + Sync + 'static,
) {
    let failures: Vec<_> = run_all(cases, play).iter().map(Failure::to_string).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// All cases, each on two threads and between two nics of its own.
pub(in crate::fabric) fn all_pass_on_threads(
    cases: Vec<Case>,
    profile: Profile,
    nics: impl Fn() -> [Nic; 2] + Send + Sync + 'static,
) {
    all_pass(cases, move |case| {
        let started = rt::now();
        let outcome = run_on_threads(case, &profile, nics());
        // A wake-up that was lost is made up for by the deadline of what was waited for.
        let waited = rt::now() - started;
        assert!(waited < profile.patience, "{case} took {waited:?}");
        outcome
    });
}

/// This test program, started once more for one test of it. It does not outlive its test.
#[derive(Debug)]
pub(in crate::fabric) struct Process(pub(in crate::fabric) Child);

impl Process {
    /// Starts the program as `test`, which finds `told` in the environment under `key`.
    pub(in crate::fabric) fn start(test: &str, key: &str, told: &str, stdin: Stdio) -> Self {
        let mut command = Command::new("/proc/self/exe");
        command.args(["--exact", test, "--nocapture"]).env(key, told).stdin(stdin);
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    pub(in crate::fabric) fn kill(&mut self) {
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

/// Plays the caller of a case here, and the answerer in another process, whose test calls [`answer`].
///
/// `told` says what the answerer needs besides the case and the caller's host.
pub(in crate::fabric) fn in_two_processes(
    case: &Case,
    profile: &Profile,
    caller: Nic,
    (test, key, told): (&str, &str, &str),
) -> Result<(), Failure> {
    let (here, there) = UnixStream::pair().unwrap();
    let told = format!("{case}|{}|{told}", caller.host());
    let process = Process::start(test, key, &told, OwnedFd::from(there).into());
    let mut answerer = String::new();
    BufReader::with_capacity(1, &here).read_line(&mut answerer).unwrap();
    let process = Rc::new(RefCell::new(process));
    let victim = Rc::clone(&process);
    let party = Party::new(caller, answerer.trim(), Role::Caller, meeting_over(here).unwrap())
        .with_kill(move || victim.borrow_mut().kill());
    run(case, profile, vec![party])?;
    if !case.kills_answerer {
        let status = process.borrow_mut().0.wait().unwrap();
        assert!(status.success(), "{case}: the answerer says what is wrong");
    }
    Ok(())
}

/// Plays the answerer in a process that [`in_two_processes`] has started: with the nic, the profile and
/// the cases that `open` makes of what the caller told. Does nothing in a process that was not started so.
pub(in crate::fabric) fn answer(key: &str, open: impl Fn(&str) -> (Nic, Profile, Vec<Case>)) {
    let Ok(told) = std::env::var(key) else { return };
    let [name, caller, told] = told.splitn(3, '|').collect::<Vec<_>>()[..] else {
        panic!("{told}")
    };
    let stdin: OwnedFd = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
    let mut socket = UnixStream::from(stdin);
    let (nic, profile, cases) = open(told);
    writeln!(socket, "{}", nic.host()).unwrap();
    let case = cases.iter().find(|case| case.to_string() == name).unwrap();
    let party = Party::new(nic, caller, Role::Answerer, meeting_over(socket).unwrap());
    run(case, &profile, vec![party]).unwrap();
}
