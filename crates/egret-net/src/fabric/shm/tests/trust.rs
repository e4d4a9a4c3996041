//! Levels of trust between real processes: this test, started again, and a copy
//! of it.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::buf::Pool;
use crate::fabric::Fabric;
use crate::fabric::shm::ShmFabric;
use crate::rt::{self, Deadline};
use crate::vi::{
    Address, ConnectError, Descriptor, Nic, NicOptions, Secret, SecretError, Trust, Vi, ViOptions,
    WhyIsolated,
};

/// What the child is to ask for and to find, and the names of both nics.
const PART: &str = "EGRET_TEST_SHM_TRUST";

/// What one side asks for.
#[derive(Debug, Clone, Copy)]
struct Wish {
    trust: Trust,
    /// `None` for one that sets none.
    secret: Option<&'static str>,
}

/// What both sides are to have.
type Found = (Trust, Option<WhyIsolated>);

const ISOLATED: Wish = Wish { trust: Trust::Isolated, secret: Some("one") };
const COOPERATING: Wish = Wish { trust: Trust::Cooperating, secret: Some("one") };
const WISHES: [Wish; 4] = [
    ISOLATED,
    COOPERATING,
    Wish { trust: Trust::Cooperating, secret: Some("two") },
    Wish { trust: Trust::Cooperating, secret: None },
];

const BOTH: Found = (Trust::Cooperating, None);
const NOTHING: Found = (Trust::Isolated, None);

const fn isolated(why: WhyIsolated) -> Found {
    (Trust::Isolated, Some(why))
}

impl Wish {
    fn nic(self, name: &str) -> Nic {
        let options = NicOptions::new(name).trust(self.trust);
        let options = match self.secret {
            Some(secret) => options.secret(Secret::from(secret)),
            None => options,
        };
        ShmFabric.open(&options).unwrap()
    }
}

/// Sends a message each way, so that the connection is known to work.
fn talk(vi: &Vi) {
    let pool = Pool::builder().class(100_000, 2).cooperating().build().unwrap();
    vi.post_recv(Descriptor::new(pool.take(100_000).unwrap())).unwrap();
    let mut message = pool.take(100_000).unwrap();
    message.bytes_mut().fill(7);
    vi.post_send(Descriptor::new(message)).unwrap();
    let got = vi.recv_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap().into_buf();
    assert!(got.bytes().iter().all(|byte| *byte == 7));
    drop(vi.send_queue().wait(Deadline::DEFAULT).unwrap().ok().unwrap());
}

fn found(vi: &Vi) -> Found {
    (vi.trust(), vi.why_isolated())
}

/// Not a test by itself: what the child does.
#[test]
fn child() {
    let Ok(part) = env::var(PART) else { return };
    let [wish, role, own, other, expected] = part.split('|').collect::<Vec<_>>()[..] else {
        panic!("{part}")
    };
    let nic = WISHES[wish.parse::<usize>().unwrap()].nic(own);
    let options = ViOptions::default();
    let vi = if role == "connects" {
        let to = Address::new(other, "trust", 0);
        nic.wait_connect(&to, &options, Deadline::DEFAULT).unwrap()
    } else {
        let listener = nic.listen("trust", 0, &options).unwrap();
        listener.wait_accept(Deadline::DEFAULT).unwrap()
    };
    assert_eq!(format!("{:?}", found(&vi)), expected);
    talk(&vi);
}

/// A child that does not outlive its test.
struct Process(Child);

impl Process {
    fn start(program: &Path, part: &str) -> Self {
        let mut command = Command::new(program);
        command.args(["--exact", "fabric::shm::tests::trust::child", "--nocapture"]);
        command.env(PART, part).stdout(Stdio::null());
        let mut child = command.spawn();
        // What another test has forked has the file open for writing until it executes another.
        while child.as_ref().is_err_and(|why| why.kind() == ErrorKind::ExecutableFileBusy) {
            rt::sleep(Duration::from_millis(1));
            child = command.spawn();
        }
        Self(child.unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Meets a child that runs `program`, from either side, and compares what the
/// two find.
fn meet(program: &Path, here: (Wish, Found), there: (usize, Found)) {
    for role in ["connects", "listens"] {
        let unique = rt::random();
        let (own, other) = (format!("trust-{unique}"), format!("child-{unique}"));
        let nic = here.0.nic(&own);
        let options = ViOptions::default();
        let listener = nic.listen("trust", 0, &options).unwrap();
        let part = format!("{}|{role}|{other}|{own}|{:?}", there.0, there.1);
        let mut child = Process::start(program, &part);
        let vi = if role == "connects" {
            listener.wait_accept(Deadline::DEFAULT).unwrap()
        } else {
            let to = Address::new(&other, "trust", 0);
            nic.wait_connect(&to, &options, Deadline::DEFAULT).unwrap()
        };
        assert_eq!(found(&vi), here.1, "{role}: {here:?} {there:?}");
        talk(&vi);
        assert!(child.0.wait().unwrap().success(), "the child says what is wrong");
    }
}

fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

#[test]
fn both_must_ask() {
    let not_asked = isolated(WhyIsolated::PeerDidNotAsk);
    meet(&own_program(), (COOPERATING, BOTH), (1, BOTH));
    meet(&own_program(), (COOPERATING, not_asked), (0, NOTHING));
    meet(&own_program(), (ISOLATED, NOTHING), (1, not_asked));
    meet(&own_program(), (ISOLATED, NOTHING), (0, NOTHING));
}

#[test]
fn both_must_have_the_secret() {
    meet(&own_program(), (WISHES[3], BOTH), (3, BOTH));
    for (here, there, why) in [
        (COOPERATING, WISHES[2], SecretError::Different),
        (COOPERATING, WISHES[3], SecretError::OnlyOurs),
        (WISHES[3], COOPERATING, SecretError::OnlyTheirs),
    ] {
        let name = |what: &str| format!("{what}-{}", rt::random());
        let (here, there) = (here.nic(&name("here")), there.nic(&name("there")));
        let options = ViOptions::default();
        let _listener = there.listen("trust", 0, &options).unwrap();
        let to = Address::new(there.host(), "trust", 0);
        let connecting = rt::spawn("connects", move || {
            here.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT).map(drop)
        });
        let connecting = connecting.unwrap();
        while !connecting.is_finished() {
            there.wait(there.poll(), Some(there.now() + Duration::from_millis(5)));
        }
        assert_eq!(connecting.join().unwrap(), Err(ConnectError::from(why)));
    }
}

/// The same bytes in another file are another executable.
#[test]
fn both_must_run_the_same_file() {
    let copy = Copied::new();
    let other = isolated(WhyIsolated::OtherExecutable);
    meet(&copy.0, (COOPERATING, other), (1, other));
    meet(&copy.0, (ISOLATED, NOTHING), (0, NOTHING));
}

/// A copy of this program.
struct Copied(PathBuf);

impl Copied {
    fn new() -> Self {
        let copy = env::temp_dir().join(format!("egret-test-{}", rt::random()));
        std::fs::copy("/proc/self/exe", &copy).unwrap();
        Self(copy)
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        _ = std::fs::remove_file(&self.0);
    }
}

/// A fabric without such levels is asked in vain, and says nothing.
#[test]
fn the_simulator_isolates() {
    let sim = crate::fabric::sim::Sim::new(1);
    let options = |name| NicOptions::new(name).trust(Trust::Cooperating);
    let (ping, pong) = (sim.open(&options("ping")).unwrap(), sim.open(&options("pong")).unwrap());
    let listener = pong.listen("trust", 0, &ViOptions::default()).unwrap();
    let to = Address::new("pong", "trust", 0);
    let connecting = ping.connect(&to, &ViOptions::default(), Deadline::DEFAULT);
    let there = listener.wait_accept(Deadline::DEFAULT).unwrap();
    let here = ping.block_on(connecting).unwrap();
    assert_eq!((found(&here), found(&there)), (NOTHING, NOTHING));
}

#[test]
fn levels_and_reasons_have_names() {
    assert_eq!(Trust::default().to_string(), "isolated");
    assert_eq!(Trust::Cooperating.to_string(), "cooperating");
    let said = WhyIsolated::OtherExecutable.to_string();
    assert_eq!(said, "the two sides run different executable files");
}
