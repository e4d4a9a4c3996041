//! The steps of a check, which all machines take at the same time.

use std::path::Path;
use std::time::Duration;

use egret::rt;

use super::clock::{self, ClockSample};
use super::link::{HostCommand, HostLink, Unreached};
use super::message::{InfoAnswer, InfoOrder, PairToken, PairWay, PeerPorts};
use super::pairs::reach_within;
use super::ports::{LISTEN, REACHABLE};
use super::{HERE, HostState, PairState};
use crate::run::{Transport, is_own, raise_files};
use crate::system::own_program;

/// The machines while they are asked.
#[derive(Debug)]
pub(super) struct HostsCheck {
    hosts: Vec<HostState>,
    /// A connection with each, in the same order, as long as it answers.
    links: Vec<Option<HostLink>>,
}

impl HostsCheck {
    /// Starts a command for this machine, and one for each of the others. The thread that calls this is the one whose end
    /// ends them.
    pub(super) fn start(machines: &[Option<String>], transport: &Transport, egret: &Path) -> Self {
        let here = HostState::new(HERE, true, machines.contains(&None));
        let others = machines.iter().flatten().map(|host| HostState::new(host, false, true));
        let hosts: Vec<_> = [here].into_iter().chain(others).collect();
        let files = raise_files(hosts.len() as u64 * FILES_OF_LINK);
        let mut check = Self { hosts, links: Vec::new() };
        for host in &mut check.hosts {
            let command = match host.here {
                true => Ok(HostCommand::here(&own_program(), files)),
                false => HostCommand::there(transport, &host.host, egret),
            };
            let link = command.and_then(HostLink::start);
            let unstarted = |why: &anyhow::Error| Unreached::unstarted(format!("{why:#}"));
            host.unreached = link.as_ref().err().map(unstarted);
            check.links.push(link.ok());
        }
        check
    }

    /// Each machine says what it is.
    pub(super) fn report(&mut self) {
        let ask = |link: &mut HostLink, _| {
            link.ask(&InfoOrder::Report, STEP_WITHIN, |answer| match answer {
                InfoAnswer::Report(report) => Some(*report),
                _ => None,
            })
        };
        self.each(ask, |host, report| host.report = Some(report));
    }

    /// Compares the clocks of the other machines with that of this one.
    pub(super) fn compare_clocks(&mut self) {
        let ask = |link: &mut HostLink, at| {
            let count = if at == 0 { 0 } else { CLOCK_SAMPLES };
            (0..count).map(|_| clock_sample(link)).collect::<Result<Vec<_>, _>>()
        };
        self.each(ask, |host, samples| host.clock = clock::offset(&samples));
    }

    /// Each machine listens where nodes on it would; then each tries to reach the others, but this machine only if nodes
    /// run on it.
    pub(super) fn pairs(&mut self) -> Vec<PairState> {
        let token = PairToken { question: rt::random(), answer: rt::random() };
        self.listen(token);
        let peers = self.hosts.iter().enumerate().filter_map(|(peer, host)| {
            let ports = host.listens.as_ref()?;
            Some(PeerPorts { peer, tcp: ports.tcp.address, udp: ports.udp.address })
        });
        let peers: Vec<_> = peers.collect();
        let within = STEP_WITHIN + reach_within(peers.len());
        let in_job: Vec<_> = self.hosts.iter().map(|host| host.in_job).collect();
        let ask = move |link: &mut HostLink, at: usize| {
            if !in_job[at] {
                return Ok((at, Vec::new()));
            }
            let peers = peers.iter().copied().filter(|peer| peer.peer != at).collect();
            let order = InfoOrder::Reach { peers, token };
            let ways = link.ask(&order, within, |answer| match answer {
                InfoAnswer::Reached(ways) => Some(ways),
                _ => None,
            });
            ways.map(|ways| (at, ways))
        };
        let (mut pairs, count) = (Vec::new(), self.hosts.len());
        self.each(ask, |_, (from, ways)| {
            // It names its peers itself, and is believed as far as there are such.
            let ways = ways.into_iter().filter(|ways| ways.peer < count);
            pairs.extend(ways.map(|ways| PairState {
                from,
                to: ways.peer,
                tcp: ways.tcp,
                udp: ways.udp,
            }));
        });
        pairs
    }

    fn listen(&mut self, token: PairToken) {
        // Variables go along to processes of a job.
        let said = std::env::var(LISTEN).ok().filter(|place| !place.is_empty());
        let here = said.clone().or_else(|| self.address_here());
        // A job on this machine alone is on loopback.
        let usual = if self.hosts.len() == 1 { "localhost" } else { REACHABLE };
        let here = here.unwrap_or_else(|| usual.to_owned());
        let ask = move |link: &mut HostLink, at: usize| {
            let place = if at == 0 { Some(here.clone()) } else { said.clone() };
            link.ask(&InfoOrder::Listen { place, token }, STEP_WITHIN, |answer| match answer {
                InfoAnswer::Listens(ports) => Some(ports),
                _ => None,
            })
        };
        self.each(ask, |host, ports| host.listens = Some(ports));
    }

    /// The address of this machine that the others see, if all see the same.
    fn address_here(&self) -> Option<String> {
        let others = self.hosts.iter().filter(|host| !host.here);
        let mut seen =
            others.filter_map(|host| host.report.as_ref()).map(|report| &report.asked_from);
        let first = seen.next()?.clone()?;
        (seen.all(|address| address.as_ref() == Some(&first)) && is_own(&first)).then_some(first)
    }

    /// Ends what was started; what was found.
    pub(super) fn end(mut self) -> Vec<HostState> {
        self.each(|link, _| Ok(link.end()), |_, _| {});
        self.hosts
    }

    /// Asks all machines at the same time by `ask`, which is given their places, and passes each answer to `answered`. A
    /// machine without an answer is asked nothing any more.
    fn each<T: Send + 'static>(
        &mut self,
        ask: impl Fn(&mut HostLink, usize) -> Result<T, Unreached> + Clone + Send + 'static,
        mut answered: impl FnMut(&mut HostState, T),
    ) {
        let begin = |(at, link): (usize, &mut Option<HostLink>)| {
            let (mut link, ask) = (link.take()?, ask.clone());
            Some(rt::spawn("info host", move || {
                let answer = ask(&mut link, at);
                (link, answer)
            }))
        };
        let begun: Vec<_> = self.links.iter_mut().enumerate().map(begin).collect();
        for ((thread, link), host) in begun.into_iter().zip(&mut self.links).zip(&mut self.hosts) {
            let Some(thread) = thread else { continue };
            match thread.map(rt::JoinHandle::join) {
                Ok(Ok((asked, Ok(answer)))) => {
                    *link = Some(asked);
                    answered(host, answer);
                }
                Ok(Ok((_, Err(why)))) => host.unreached = Some(why),
                Ok(Err(panic)) => std::panic::resume_unwind(panic),
                Err(why) => {
                    let why = format!("no thread to ask it: {why}");
                    host.unreached = Some(Unreached::unstarted(why));
                }
            }
        }
    }
}

fn clock_sample(link: &mut HostLink) -> Result<ClockSample, Unreached> {
    let (sent, before) = (clock::time_ns(), rt::now());
    let theirs = link.ask(&InfoOrder::Time, STEP_WITHIN, |answer| match answer {
        InfoAnswer::Time(time) => Some(time),
        _ => None,
    })?;
    Ok(ClockSample { sent, theirs, round_trip: rt::now() - before })
}

impl PairWay {
    /// Whether it was tried in vain.
    pub(super) fn failed(&self) -> Option<&str> {
        self.why.as_deref().filter(|_| !self.reached)
    }
}

/// How long a machine has for an answer; ssh itself waits for 10 s.
const STEP_WITHIN: Duration = Duration::from_secs(15);
const CLOCK_SAMPLES: usize = 8;
/// Descriptors of a connection with a machine, with room for those of its start.
const FILES_OF_LINK: u64 = 4;
