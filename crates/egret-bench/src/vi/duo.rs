//! Messages between two processes: this one leads, the other follows.

use std::ops::RangeInclusive;
use std::rc::Rc;

use crate::limit::Stopwatch;
use anyhow::{Context, Result, bail};
use egret::buf::Pool;
use egret::rt;
use egret::vi::{
    Address, Encrypt, Listener, Nic, NicOptions, Reliability, Secret, Trust, Vi, ViOptions, Wait,
};
use serde::{Deserialize, Serialize};

use super::pull;
use crate::args::{UDP, fabrics};
use crate::measure::{Probe, Sample};
use crate::peer::space::REACHABLE;
use crate::peer::{DRIVEN, Follower, FollowerProcess, PeerFigures, PeerStation, PeerTask};
use crate::side::{BenchConnection, Mode, PATIENCE, Sizes, buffers};

/// What the two measure, and how.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DuoPlan {
    pub fabric: String,
    pub mode: Mode,
    pub bytes: usize,
    pub wait: WaitMode,
    pub trust: Trusting,
    /// Whether the bytes of the connection are encrypted; as they are by default if it is `None`.
    pub encrypt: Option<Encrypting>,
    pub answers: Answers,
    /// Messages under way at once.
    pub window: usize,
    /// Connections beside it over which nothing goes.
    pub idle: u32,
    /// What the follower's nic is opened with.
    pub host: String,
    /// Where it is then.
    pub to: String,
    /// What both prove to know, where strangers reach them.
    pub secret: Option<String>,
}

/// What comes back for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answers {
    /// Nothing.
    Never,
    /// So many bytes, before the next message goes.
    Each(usize),
    /// So many bytes; the window is full of messages meanwhile.
    Ahead(usize),
}

impl Answers {
    /// The bytes of an answer, or what they would be to messages of `bytes`.
    const fn bytes_or(self, bytes: usize) -> usize {
        match self {
            Self::Never => bytes,
            Self::Each(back) | Self::Ahead(back) => back,
        }
    }
}

/// How to wait for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum WaitMode {
    /// Look again and again
    Spin,
    /// Look for a while, then sleep
    Balanced,
    /// Sleep until woken
    Frugal,
}

impl WaitMode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Spin => "spin",
            Self::Balanced => "balanced",
            Self::Frugal => "frugal",
        }
    }

    pub(crate) const fn of_nic(self) -> Wait {
        match self {
            Self::Spin => Wait::Spin,
            Self::Balanced => Wait::Balanced,
            Self::Frugal => Wait::Frugal,
        }
    }
}

/// Whether peers may write each other's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Trusting {
    /// Each its own
    Isolated,
    /// Both each other's; processes only
    Cooperating,
}

impl Trusting {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Isolated => "isolated",
            Self::Cooperating => "cooperating",
        }
    }

    const fn of_nic(self) -> Trust {
        match self {
            Self::Isolated => Trust::Isolated,
            Self::Cooperating => Trust::Cooperating,
        }
    }
}

/// Whether the bytes of a connection are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Encrypting {
    /// Also on loopback
    On,
    /// Also between machines
    Off,
}

impl Encrypting {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }

    pub(crate) const fn of_nic(self) -> Encrypt {
        match self {
            Self::On => Encrypt::Always,
            Self::Off => Encrypt::Never,
        }
    }
}

impl DuoPlan {
    /// Posted messages of so many bytes, and two sides that spin.
    pub(crate) fn new(fabric: &str, bytes: usize, answers: Answers) -> Self {
        Self {
            fabric: fabric.to_owned(),
            mode: Mode::Posted,
            bytes,
            wait: WaitMode::Spin,
            trust: Trusting::Isolated,
            encrypt: None,
            answers,
            window: Mode::Posted.many(false, bytes),
            idle: 0,
            host: host("vi"),
            to: String::new(),
            secret: None,
        }
    }

    fn nic(&self, host: &str) -> Result<Nic> {
        let options = NicOptions::new(host).wait(self.wait.of_nic()).trust(self.trust.of_nic());
        let options = match self.encrypt {
            None => options,
            Some(encrypt) => options.encrypt(encrypt.of_nic()),
        };
        let options = match &self.secret {
            None => options,
            Some(secret) => options.secret(Secret::from(&secret[..])),
        };
        Ok(fabrics().open(&self.fabric, options)?)
    }

    /// The connections of one side, made in turn with the other.
    fn connections(&self, sizes: Sizes, mut one: impl FnMut() -> Result<Vi>) -> Result<DuoSide> {
        let side = self.side(sizes, one()?)?;
        let idle = (0..self.idle).map(|_| one()).collect::<Result<_>>()?;
        Ok(DuoSide { side, _idle: idle })
    }

    /// Buffers lie where the peer can read them; a slice is the program's.
    fn side(&self, sizes: Sizes, vi: Vi) -> Result<BenchConnection> {
        if let Some(why) = vi.why_isolated() {
            bail!("the two processes do not cooperate: {why}");
        }
        let bytes_max = sizes.sent.max(sizes.taken).max(1);
        let pool = Pool::builder().class(bytes_max, buffers(self.window));
        let pool = match self.mode {
            Mode::Handover => pool.cooperating().build()?,
            // Then the peer writes it by itself.
            Mode::Write if self.trust == Trusting::Cooperating => pool.cooperating().build()?,
            _ => pool.shareable().build()?,
        };
        BenchConnection::exchange_keys(vi, self.mode, &pool, sizes, self.window)
    }

    /// What the leader sends and takes.
    const fn sizes(&self) -> Sizes {
        Sizes { sent: self.bytes, taken: self.answers.bytes_or(self.bytes) }
    }
}

/// A host for a nic, which no other has.
pub(crate) fn host(of: &str) -> String {
    format!("bench-{of}-{}-{:x}", std::process::id(), rt::random())
}

/// The most reliable that the nic offers.
pub(crate) fn options(nic: &Nic) -> ViOptions {
    let levels = [Reliability::Reception, Reliability::Delivery];
    let level = levels.into_iter().find(|level| nic.limits().offers(*level));
    ViOptions::of(level.unwrap_or(Reliability::Unreliable))
}

/// One side of the connection under measurement, and the idle ones.
#[derive(Debug)]
struct DuoSide {
    side: BenchConnection,
    _idle: Vec<Vi>,
}

/// The leader's half.
#[derive(Debug)]
pub(crate) struct Leader {
    plan: DuoPlan,
    nic: Nic,
    connected: Option<DuoSide>,
    round: u64,
}

impl Leader {
    pub(crate) fn new(plan: DuoPlan) -> Result<Self> {
        let nic = match &plan.host[..] {
            REACHABLE => plan.nic(REACHABLE)?,
            host => plan.nic(&format!("{host}-leader"))?,
        };
        Ok(Self { plan, nic, connected: None, round: 0 })
    }

    /// Connects to the follower.
    pub(crate) fn connect(&mut self) -> Result<()> {
        let (to, options) = (Address::new(&self.plan.to, SERVICE, 0), options(&self.nic));
        let connect = || Ok(self.nic.wait_connect(&to, &options, PATIENCE)?);
        self.connected = Some(self.plan.connections(self.plan.sizes(), connect)?);
        Ok(())
    }

    /// Its side of the connection, once it is connected to the follower.
    pub(crate) fn side(&mut self) -> Result<&mut BenchConnection> {
        Ok(&mut self.connected.as_mut().context("there is no connection yet")?.side)
    }

    /// The numbers of the next `rounds` rounds.
    pub(crate) const fn numbers(&mut self, rounds: u64) -> RangeInclusive<u64> {
        let first = self.round + 1;
        self.round += rounds;
        first..=self.round
    }

    /// Leads `rounds` rounds; the first run connects.
    pub(crate) fn lead(&mut self, rounds: u64) -> Result<Sample> {
        let DuoPlan { mode, answers, .. } = self.plan;
        if self.connected.is_none() {
            self.connect()?;
        }
        let (first, last) = self.numbers(rounds).into_inner();
        let side = self.side()?;
        match (mode.is_pulled(), answers) {
            (true, Answers::Never) => pull::streamed(side, first, last),
            (true, _) => pull::one_by_one(side, first..=last),
            (false, Answers::Never) => one_way(side, first..=last),
            (false, Answers::Each(_)) => there_and_back(side, first..=last),
            (false, Answers::Ahead(_)) => ahead(side, first, last),
        }
    }
}

/// A leader in the second process, for pairs that this process only starts.
pub(crate) const LEADER: PeerTask<DuoPlan> =
    PeerTask { name: "leader", start: |plan, _| Ok(Box::new(Leader::new(plan)?)) };

impl Follower for Leader {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        self.lead(rounds)?;
        Ok(PeerFigures::new())
    }

    fn needs_driving(&self) -> bool {
        needs_driving(&self.plan)
    }

    fn drive(&self) {
        self.nic.poll();
    }
}

/// A leader in this process, and the station of its follower.
#[derive(Debug)]
pub(crate) struct Led {
    leader: Leader,
    station: PeerStation,
}

impl Led {
    pub(crate) fn new(peer: &Rc<FollowerProcess>, mut plan: DuoPlan) -> Result<Self> {
        let station = peer.open(&MESSAGES, &plan, &[])?;
        plan.to.clone_from(&station.host);
        let leader = Leader::new(plan)?;
        let mut led = Self { leader, station };
        led.run(0)?;
        Ok(led)
    }
}

impl Probe for Led {
    fn run(&mut self, rounds: u64) -> Result<Sample> {
        self.station.begin(rounds)?;
        let led = self.leader.lead(rounds);
        if led.is_ok() && needs_driving(&self.leader.plan) {
            // What this side said last may be lost, and the other waits for it.
            let until = PATIENCE.until_from(rt::now());
            while !self.station.is_over(DRIVEN)? && until.is_none_or(|until| rt::now() < until) {
                self.leader.nic.poll();
            }
        }
        self.station.conclude(led)
    }
}

/// Whether a nic must be driven while its peer is not done: the window over datagrams repeats what
/// was lost when it is driven, and answers what the peer repeats.
fn needs_driving(plan: &DuoPlan) -> bool {
    plan.fabric == UDP
}

/// One at a time; the payload is rewritten before the clock starts.
fn there_and_back(side: &mut BenchConnection, rounds: impl Iterator<Item = u64>) -> Result<Sample> {
    let mut times = Vec::new();
    for round in rounds {
        side.rewrite(round)?;
        let start = Stopwatch::start();
        side.send(round)?;
        side.take(round)?;
        times.push(start.nanos());
        side.repost()?;
    }
    side.part()?;
    Ok(Sample::Times(times))
}

/// As many at once as there are buffers, rewritten before each send, until the
/// other side has them all.
fn one_way(side: &mut BenchConnection, rounds: impl Iterator<Item = u64>) -> Result<Sample> {
    let start = rt::now();
    for round in rounds {
        side.rewrite(round)?;
        side.send(round)?;
    }
    side.settle()?;
    side.wait_confirmed()?;
    let took = rt::now() - start;
    side.part()?;
    Ok(Sample::Total(took))
}

/// As many under way as there are buffers, each answered.
fn ahead(side: &mut BenchConnection, first: u64, last: u64) -> Result<Sample> {
    let start = rt::now();
    let mut next = first;
    for round in first..=last {
        while next <= last && next - round < side.window() {
            side.rewrite(next)?;
            side.send(next)?;
            next += 1;
        }
        side.receive(round)?;
    }
    let took = rt::now() - start;
    side.part()?;
    Ok(Sample::Total(took))
}

/// The follower of a leader, in the second process.
pub(crate) const MESSAGES: PeerTask<DuoPlan> =
    PeerTask { name: "messages", start: |plan, _| Ok(Box::new(Followed::new(plan)?)) };

/// The follower's half.
#[derive(Debug)]
pub(crate) struct Followed {
    plan: DuoPlan,
    nic: Nic,
    listener: Listener,
    connected: Option<DuoSide>,
    round: u64,
}

impl Followed {
    pub(crate) fn new(plan: DuoPlan) -> Result<Self> {
        let nic = plan.nic(&plan.host)?;
        let listener = nic.listen(SERVICE, 0, &options(&nic))?;
        Ok(Self { plan, nic, listener, connected: None, round: 0 })
    }

    /// Its side of the connection, and the numbers of the next `rounds` rounds; the first run
    /// connects.
    pub(crate) fn next(
        &mut self,
        rounds: u64,
    ) -> Result<(&mut BenchConnection, RangeInclusive<u64>)> {
        if self.connected.is_none() {
            let accept = || Ok(self.listener.wait_accept(PATIENCE)?);
            self.connected = Some(self.plan.connections(self.plan.sizes().turned(), accept)?);
        }
        let first = self.round + 1;
        self.round += rounds;
        Ok((&mut self.connected.as_mut().context("connected just now")?.side, first..=self.round))
    }
}

impl Follower for Followed {
    fn follow(&mut self, rounds: u64) -> Result<PeerFigures> {
        let DuoPlan { mode, answers, .. } = self.plan;
        let (side, numbers) = self.next(rounds)?;
        if mode.is_pulled() {
            pull::have_ready(side, numbers)?;
            return Ok(PeerFigures::new());
        }
        for round in numbers {
            side.take(round)?;
            if answers != Answers::Never {
                side.answer(round)?;
                side.send(round)?;
            }
            side.repost()?;
        }
        if answers == Answers::Never {
            side.confirm_all_came()?;
        }
        side.part()?;
        Ok(PeerFigures::new())
    }

    fn host(&self) -> &str {
        self.nic.host()
    }

    fn needs_driving(&self) -> bool {
        needs_driving(&self.plan)
    }

    fn drive(&self) {
        self.nic.poll();
    }
}

const SERVICE: &str = "bench";
