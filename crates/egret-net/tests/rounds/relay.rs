//! Somebody between two ends who passes on what they say: late, or not at all.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use egret_net::rt::{self, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_linger;

use super::peer::{Order, Orders, Peer};

/// The process, as the test sees it.
pub(crate) struct Relay(Peer);

impl Relay {
    pub(crate) fn start() -> Self {
        Self(Peer::start("relay", None))
    }

    /// Where it listens.
    pub(crate) fn host(&self) -> &str {
        self.0.host()
    }

    /// Passes new connections on to this host, so many milliseconds late.
    pub(crate) fn serve(&mut self, target: &str, late_ms: u64) {
        self.order(&format!("serve {target} {late_ms}"));
    }

    /// Resets all connections, at both ends.
    pub(crate) fn reset(&mut self) {
        self.order("reset");
    }

    fn order(&mut self, order: &str) {
        self.0.tell(order);
        assert_eq!(self.0.said(), "done");
    }
}

/// What the process does until whoever started it is gone.
pub(crate) fn run() {
    let mut orders = Orders::inherited();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    orders.say(&listener.local_addr().unwrap().to_string());
    let (mut target, mut late) = (String::new(), Duration::ZERO);
    let mut lines: Vec<Line> = Vec::new();
    loop {
        sleep(&orders, &listener, &lines);
        match orders.next() {
            Order::End => return,
            Order::None => {}
            Order::Some(order) => {
                match order.split(' ').collect::<Vec<_>>()[..] {
                    ["reset"] => lines.drain(..).for_each(Line::reset),
                    ["serve", to, late_ms] => {
                        target = to.to_owned();
                        late = Duration::from_millis(late_ms.parse().unwrap());
                    }
                    _ => panic!("{order}"),
                }
                orders.say("done");
            }
        }
        while let Ok((near, _)) = listener.accept() {
            // Whoever is not there is no one to talk to.
            if let Ok(far) = TcpStream::connect(&target) {
                lines.push(Line::new(near, far, late));
            }
        }
        lines.retain_mut(Line::turn);
    }
}

/// Until there may be something to do.
fn sleep(orders: &Orders, listener: &TcpListener, lines: &[Line]) {
    let mut fds = vec![PollFd::new(orders, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
    let mut until: Option<Instant> = None;
    for line in lines {
        for (way, [from, _]) in line.ways.iter().zip([[0, 1], [1, 0]]) {
            if way.is_open && way.bytes < WAITING_MAX {
                fds.push(PollFd::new(&line.ends[from], PollFlags::IN));
            }
            if let Some((due, _)) = way.waiting.front() {
                // A peer that does not read is asked again a little later.
                let due = (*due).max(rt::now() + Duration::from_millis(1));
                until = Some(until.map_or(due, |until| until.min(due)));
            }
        }
    }
    let time = until.map_or(Duration::from_secs(1), |until| until.since(rt::now()));
    let time = Timespec::try_from(time).unwrap();
    _ = poll(&mut fds, Some(&time));
}

/// A connection on either side.
struct Line {
    ends: [TcpStream; 2],
    ways: [Way; 2],
    late: Duration,
}

/// What goes one way.
struct Way {
    waiting: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    is_open: bool,
}

impl Line {
    fn new(near: TcpStream, far: TcpStream, late: Duration) -> Self {
        let ends = [near, far];
        for end in &ends {
            end.set_nonblocking(true).unwrap();
            end.set_nodelay(true).unwrap();
        }
        let way = || Way { waiting: VecDeque::new(), bytes: 0, is_open: true };
        Self { ends, ways: [way(), way()], late }
    }

    fn reset(self) {
        for end in &self.ends {
            set_socket_linger(end, Some(Duration::ZERO)).unwrap();
        }
    }

    /// Moves what can be moved; whether there will be more.
    fn turn(&mut self) -> bool {
        let mut is_broken = false;
        for (way, [from, to]) in self.ways.iter_mut().zip([[0, 1], [1, 0]]) {
            let moved = way.read(&self.ends[from], self.late);
            is_broken |= moved.and_then(|()| way.write(&self.ends[to])).is_err();
        }
        let is_over = self.ways.iter().all(|way| !way.is_open && way.waiting.is_empty());
        if is_broken {
            // The other end learns of it as it would have without us.
            for end in &self.ends {
                _ = set_socket_linger(end, Some(Duration::ZERO));
            }
        }
        !is_broken && !is_over
    }
}

impl Way {
    fn read(&mut self, mut from: &TcpStream, late: Duration) -> std::io::Result<()> {
        let mut buf = vec![0; 64 << 10];
        while self.is_open && self.bytes < WAITING_MAX {
            match from.read(&mut buf) {
                Ok(len) => {
                    // The end is passed on like anything else.
                    self.is_open = len > 0;
                    self.bytes += len;
                    self.waiting.push_back((rt::now() + late, buf[..len].to_vec()));
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn write(&mut self, mut to: &TcpStream) -> std::io::Result<()> {
        while let Some((due, bytes)) = self.waiting.front_mut() {
            if *due > rt::now() {
                break;
            }
            if bytes.is_empty() {
                to.shutdown(std::net::Shutdown::Write)?;
                self.waiting.pop_front();
                continue;
            }
            match to.write(bytes) {
                Ok(len) => {
                    bytes.drain(..len);
                    self.bytes -= len;
                }
                Err(why) if why.kind() == ErrorKind::WouldBlock => break,
                Err(why) => return Err(why),
            }
            if bytes.is_empty() {
                self.waiting.pop_front();
            }
        }
        Ok(())
    }
}

/// Bytes that wait to be passed on one way.
const WAITING_MAX: usize = 1 << 20;
