//! Threads of one process that send requests to others, for `egret bench threads`.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::limit::Stopwatch;
use anyhow::{Context, Result, bail, ensure};
use egret::am::{Endpoint, EndpointName, RemoteEndpoint};
use egret::fabric::Fabrics;
use egret::link::Links;
use egret::rt;
use egret::vi::NicOptions;

use crate::am::served::{ECHO, HOLD, IS_HELD, NAME, RELEASE, RequestTask, SETTLE};
use crate::links;
use crate::peer::PeerStation;
use crate::side::PATIENCE;

/// Threads that send requests, all over one nic, and the processes that answer.
pub(crate) struct RequestThreads {
    threads: Vec<RequestThread>,
    servers: Vec<ServerProcess>,
}

/// A process that answers.
struct ServerProcess {
    station: PeerStation,
    /// For what is not measured.
    aside: (Endpoint, RemoteEndpoint),
    /// How many requests it has had.
    had: u64,
}

/// A thread that carries out orders; it ends with this value.
struct RequestThread {
    orders: Sender<TeamOrder>,
    done: Receiver<Result<Done>>,
}

/// What a thread has done.
#[derive(Debug, Default)]
struct Done {
    requests: u64,
    /// Of each of them, if the order was to take the time.
    times: Vec<f64>,
}

#[derive(Debug, Clone, Copy)]
enum TeamOrder {
    /// So many requests one after the other.
    Send(u64),
    /// The same, and the time of each.
    Time(u64),
    /// A request that is answered late.
    Hold,
}

impl RequestThreads {
    /// So many threads; each sends to the next of the servers.
    pub(crate) fn new(
        task: &RequestTask,
        stations: Vec<PeerStation>,
        threads: usize,
    ) -> Result<Self> {
        let nic = NicOptions::new(&format!("{}-requests", task.host)).wait(task.wait.of_nic());
        let links = links::open(Fabrics::default().open(&task.fabric, nic)?)?;
        for station in &stations {
            station.begin(0)?;
        }
        let thread = |at: usize| RequestThread::start(&links, &stations[at % stations.len()].host);
        let threads = (0..threads).map(thread).collect::<Result<Vec<_>>>()?;
        let server = |station: PeerStation| {
            let aside = mapped(&links, &station.host)?;
            Ok(ServerProcess { station, aside, had: 0 })
        };
        let servers = stations.into_iter().map(server).collect::<Result<Vec<_>>>()?;
        servers.iter().try_for_each(ServerProcess::settle)?;
        Ok(Self { threads, servers })
    }

    /// So many requests in all, by so many threads at once; how long they take.
    pub(crate) fn send(&mut self, requests: u64, threads: usize) -> Result<Duration> {
        self.run(threads, |team| {
            let (share, rest) = (requests / threads as u64, requests % threads as u64);
            let start = rt::now();
            for (at, thread) in team.threads[..threads].iter().enumerate() {
                thread.order(TeamOrder::Send(share + u64::from((at as u64) < rest)))?;
            }
            let did = (0..threads).map(|at| Ok(team.end(at)?.requests)).sum::<Result<u64>>()?;
            let took = rt::now() - start;
            // Threads that wait for a core more than for an answer do not come to the end.
            Ok(took.mul_f64(requests as f64 / did.max(1) as f64))
        })
    }

    /// The time of each request of the first thread.
    pub(crate) fn first(&mut self, requests: u64) -> Result<Vec<f64>> {
        self.run(1, |team| {
            team.threads[0].order(TeamOrder::Time(requests))?;
            Ok(team.end(0)?.times)
        })
    }

    /// The time of each request of the second thread. The first one waits meanwhile for
    /// an answer that does not come.
    pub(crate) fn second(&mut self, requests: u64) -> Result<Vec<f64>> {
        self.run(2, |team| {
            team.threads[0].order(TeamOrder::Hold)?;
            team.servers[0].wait_until_held()?;
            team.threads[1].order(TeamOrder::Time(requests))?;
            let times = team.end(1)?.times;
            team.servers[0].aside.1.wait_call(RELEASE, PATIENCE)?;
            team.end(0)?;
            Ok(times)
        })
    }

    /// Waits until a thread has carried out its order.
    fn end(&mut self, thread: usize) -> Result<Done> {
        let done = self.threads[thread].done.recv().context("a thread is gone")??;
        self.server_of(thread).had += done.requests;
        Ok(done)
    }

    fn server_of(&mut self, thread: usize) -> &mut ServerProcess {
        let servers = self.servers.len();
        &mut self.servers[thread % servers]
    }

    /// Lets the servers of so many threads serve while `lead` has requests sent.
    fn run<T>(&mut self, threads: usize, lead: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let servers = threads.min(self.servers.len());
        for server in &self.servers[..servers] {
            server.station.begin(0)?;
        }
        let led = lead(self)?;
        self.servers[..servers].iter().try_for_each(ServerProcess::settle)?;
        Ok(led)
    }
}

impl ServerProcess {
    /// Ends a run, and checks that all of its requests came.
    fn settle(&self) -> Result<()> {
        let reply = self.aside.1.wait_call(SETTLE, PATIENCE)?;
        let [came] = reply.words() else { bail!("an answer without its number") };
        ensure!(*came == self.had, "{came} requests came of {}", self.had);
        self.station.end()?;
        Ok(())
    }

    fn wait_until_held(&self) -> Result<()> {
        let until = PATIENCE.until_from(rt::now());
        while self.aside.1.wait_call(IS_HELD, PATIENCE)?.words() != [1] {
            ensure!(until.is_none_or(|until| rt::now() < until), "a request did not come");
        }
        Ok(())
    }
}

impl RequestThread {
    fn start(links: &Links, host: &str) -> Result<Self> {
        let (endpoint, remote) = mapped(links, host)?;
        let ((orders, to_do), (say, done)) = (channel(), channel());
        let body = move || {
            // As long as the remote is used.
            let _endpoint = endpoint;
            while let Ok(order) = to_do.recv() {
                if say.send(obey(&remote, order)).is_err() {
                    break;
                }
            }
        };
        rt::spawn("requests", body).context("starting a thread")?;
        Ok(Self { orders, done })
    }

    fn order(&self, order: TeamOrder) -> Result<()> {
        self.orders.send(order).context("a thread is gone")
    }
}

fn obey(remote: &RemoteEndpoint, order: TeamOrder) -> Result<Done> {
    let mut done = Done::default();
    let (requests, is_timed) = match order {
        TeamOrder::Hold => {
            remote.wait_call(HOLD, PATIENCE)?;
            return Ok(done);
        }
        TeamOrder::Send(requests) => (requests, false),
        TeamOrder::Time(requests) => (requests, true),
    };
    let until = rt::now() + LONGEST;
    while done.requests < requests {
        let start = is_timed.then(Stopwatch::start);
        remote.wait_call(ECHO, PATIENCE)?;
        done.times.extend(start.map(Stopwatch::nanos));
        done.requests += 1;
        if done.requests.is_multiple_of(BETWEEN_CHECKS) && rt::now() >= until {
            break;
        }
    }
    Ok(done)
}

fn mapped(links: &Links, host: &str) -> Result<(Endpoint, RemoteEndpoint)> {
    let endpoint = links.bundle().endpoint(0);
    let remote = endpoint.wait_map(&EndpointName::new(host, NAME, 0), PATIENCE)?;
    Ok((endpoint, remote))
}

/// How long a thread goes on; others wait meanwhile.
const LONGEST: Duration = Duration::from_secs(1);
const BETWEEN_CHECKS: u64 = 16;
