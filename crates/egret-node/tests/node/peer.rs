//! Nodes that are processes: this test, started again.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use egret_net::rt::{self, Deadline};
use egret_node::node::{Config, Event, Node};
use egret_node::{Links, Registry};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::{LONG, SOON};

/// What the child is to be.
pub(crate) const PART: &str = "EGRET_TEST_NODE_PART";

/// A node that does not outlive its test.
pub(crate) struct Peer {
    pub(crate) child: Child,
    stream: UnixStream,
}

impl Peer {
    pub(crate) fn start(part: &str, registry: &Registry, rank: u32) -> Self {
        let (stream, stdin) = UnixStream::pair().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "other", "--nocapture"]);
        command.env(PART, part).env("EGRET_POOL", "test").env("EGRET_SECRET", crate::SECRET);
        command.env("EGRET_REGISTRY", registry.address()).env("EGRET_RANK", rank.to_string());
        command.env("EGRET_JOB", "test").env("RUST_BACKTRACE", "0");
        command.stdin(OwnedFd::from(stdin)).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        stream.set_read_timeout(Some(2 * LONG)).unwrap();
        Self { child, stream }
    }

    /// The next line it says.
    pub(crate) fn said(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, &self.stream).read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it says nothing any more");
        line.trim_end().to_owned()
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stream, "{line}").unwrap();
    }

    /// Stops it, and waits until none of its threads runs.
    pub(crate) fn stop(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
    }

    pub(crate) fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
    }

    /// Waits for its end; what it has printed as an error.
    pub(crate) fn ended(mut self) -> String {
        let errors = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap();
        self.child.wait().unwrap();
        errors
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What the child does.
pub(crate) fn run(part: &str) {
    let mut stream = UnixStream::from(stdin());
    let node = Node::join(Config::from_env().unwrap()).unwrap();
    writeln!(stream, "{}", node.id()).unwrap();
    match part {
        "idle" => _ = read(&stream),
        "watch" => watch(&node, &mut stream),
        "busy" => busy(&node, &mut stream),
        "panic" => {
            read(&stream);
            panic!("the parrot is dead");
        }
        "panic of two" => {
            let _other = Node::join(Config::from_env().unwrap().rank(2)).unwrap();
            panic!("the parrot is dead");
        }
        "claims" => crate::claims::run(&node, &mut stream),
        "serve" => serve(&node, &mut stream),
        other => panic!("{other}"),
    }
}

/// Says what it sees.
fn watch(node: &Node, stream: &mut UnixStream) {
    let mut events = node.events();
    loop {
        let said = match events.wait_next(SOON).unwrap() {
            Event::Joined(member) => format!("joined {}", member.id),
            Event::Left(id) => format!("left {id}"),
            Event::Died { node, why } => format!("died {node} {why}"),
            Event::RegistryLost { .. } => return,
            other => panic!("{other:?}"),
        };
        if writeln!(stream, "{said}").is_err() {
            return;
        }
    }
}

/// Answers on all its fabrics, which it says with their hosts.
fn serve(node: &Node, stream: &mut UnixStream) {
    let serve = |(_, links): &(String, Links)| {
        let served = links.bundle().register("echo", 0).unwrap();
        served.on(0, |request| request.reply(&[1]));
        served
    };
    let _served: Vec<_> = node.links().iter().map(serve).collect();
    writeln!(stream, "ready").unwrap();
    read(stream);
}

/// Computes on two threads for as many milliseconds as it is told, and says how many nodes
/// have died.
fn busy(node: &Node, stream: &mut UnixStream) {
    let end = rt::now() + std::time::Duration::from_millis(read(stream).parse().unwrap());
    let other = rt::spawn("busy", move || spin(end)).unwrap();
    spin(end);
    other.join().unwrap();
    let mut events = node.events();
    let mut died = 0;
    while let Ok(event) = events.wait_next(Deadline::NOW) {
        died += u32::from(matches!(event, Event::Died { .. } | Event::RegistryLost { .. }));
    }
    writeln!(stream, "{died}").unwrap();
    read(stream);
}

fn spin(end: rt::Instant) -> u64 {
    let mut sum = 0_u64;
    while rt::now() < end {
        for number in 0..100_000_u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
    sum
}

pub(crate) fn read(stream: &UnixStream) -> String {
    let mut line = String::new();
    _ = BufReader::with_capacity(1, stream).read_line(&mut line);
    line.trim_end().to_owned()
}

fn stdin() -> OwnedFd {
    std::os::fd::AsFd::as_fd(&std::io::stdin()).try_clone_to_owned().unwrap()
}
