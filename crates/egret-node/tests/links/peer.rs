//! The other process: this test, started again.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use egret_net::rt::Deadline;
use egret_node::LinksOptions;

use super::{LONG, map, open};

/// What the child is to be: `serve`, `fail` at its end, or `flood`, the fabric, its name, its window, and whom
/// to flood.
pub(crate) const PART: &str = "EGRET_TEST_LINKS_PART";

/// A child that does not outlive its test.
pub(crate) struct Peer {
    child: Child,
    stream: UnixStream,
    pub(crate) host: String,
}

impl Peer {
    /// Starts it, in another network namespace if one is named.
    pub(crate) fn start(part: &str, space: Option<&str>) -> Self {
        Self::start_with(part, space, Stdio::null())
    }

    /// Starts it with this to write to.
    pub(crate) fn start_with(part: &str, space: Option<&str>, stdout: Stdio) -> Self {
        let (stream, stdin) = UnixStream::pair().unwrap();
        let this = std::env::current_exe().unwrap();
        let mut command = match space {
            None => Command::new(this),
            Some(space) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", space]).arg(this);
                command
            }
        };
        command.args(["--exact", "other", "--nocapture"]).env(PART, part);
        let child = command.stdin(OwnedFd::from(stdin)).stdout(stdout).spawn().unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut peer = Self { child, stream, host: String::new() };
        peer.host = peer.said();
        peer
    }

    /// The next line it says.
    pub(crate) fn said(&mut self) -> String {
        let mut line = String::new();
        BufReader::with_capacity(1, &self.stream).read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it says nothing any more");
        line.trim_end().to_owned()
    }

    /// Has it close its links and end.
    pub(crate) fn close(mut self) {
        self.stream.write_all(&[0]).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// What the child does until its test is gone.
pub(crate) fn run(part: &str) {
    let [what, fabric, name, window, to] = part.split('|').collect::<Vec<_>>()[..] else {
        panic!("{part}")
    };
    let links = open(fabric, name, LinksOptions::default().window(window.parse().unwrap()));
    let mut stream = inherited();
    let endpoint = links.bundle().register("serve", 0).unwrap();
    endpoint.on(0, |request| {
        let words = request.words();
        request.reply(words);
    });
    let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let keeps = std::sync::Arc::clone(&kept);
    endpoint.on(1, move |request| keeps.lock().unwrap().push(request.later()));
    let mut next = 0;
    endpoint.on(2, move |request| {
        assert_eq!(request.words()[0], next, "once, and in order");
        next += 1;
        request.reply(&[next]);
    });
    writeln!(stream, "{}", links.host()).unwrap();
    if what == "flood" {
        let remote = map(&endpoint, to, "serve");
        for number in 0..FLOOD {
            remote.wait_send((2, &[number]), Deadline::In(LONG)).unwrap();
        }
        remote.wait_call((0, &[1]), Deadline::In(LONG)).unwrap();
        writeln!(stream, "done").unwrap();
    }
    _ = stream.read(&mut [0]);
    match what {
        "fail" => links.close_because("it was told to fail"),
        _ => links.close(),
    }
}

/// What the child hears its test by, and says something to it.
pub(crate) fn inherited() -> UnixStream {
    std::io::stdin().as_fd().try_clone_to_owned().unwrap().into()
}

/// Messages of each side.
pub(crate) const FLOOD: u64 = 3000;
