//! The bytes that each peer may send this node; and, with messages for bytes, the messages.
//!
//! What was granted and is not free again is *held* by a flow: credit that its sender has not
//! used, bytes under way, and bytes that the reader has not taken. `held + free == total`, always.
//!
//! * A flow may always hold its guarantee: that much is set aside for it while it is open.
//! * It may hold up to its window, which doubles while reader and sender are both faster than it
//!   lets them be, but no more than a 64th of what is free then. If a hundred, one after the other,
//!   run at full speed and then are not read any more, a fifth is still free, and a flow that is read
//!   has a window of nearly a megabyte.
//! * Flows have peers, and each peer has a share: what it may hold whatever the others do. A peer
//!   that holds more has it of what is in no peer's share.
//! * Who has one piece that is larger asks for it, and is granted it when there is room: as much
//!   again must stay, beside a quarter of everything that such pieces never get, and it holds no
//!   more than two such pieces beyond its share. One that its peer's share has room for needs none
//!   of that. Who asked first comes first, but does not hold up
//!   others who want less.

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;

use super::fault::{self, Fault, planted};
use crate::slots::{SlotKey, SlotTable};

/// The bytes that a node takes from others before its program does, and who has them.
///
/// ```
/// use egret_node::flow::{FlowBudget, FlowTerms, PeerId};
///
/// let mut budget = FlowBudget::new(FlowTerms::of(1 << 20));
/// let flow = budget.open(PeerId(7))?;
/// assert_eq!(budget.held(flow), 16 << 10);
/// // Half of it came, and was taken: it is granted again, and more.
/// let more = budget.taken(flow, 8 << 10, true);
/// assert_eq!(budget.held(flow), (8 << 10) + more);
/// budget.close(flow);
/// assert_eq!(budget.free(), 1 << 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FlowBudget {
    terms: FlowTerms,
    free: u64,
    /// Of what is free, set aside for flows that hold less than they are guaranteed.
    reserved: u64,
    accounts: SlotTable<FlowAccount>,
    /// What each peer holds or has set aside, of those that have flows.
    peers: BTreeMap<PeerId, u64>,
    /// Of that, within the shares of the peers.
    within: u64,
    /// Flows that asked for more than their share, in that order.
    waiting: VecDeque<FlowId>,
    /// Granted in turn, and not told yet.
    granted: VecDeque<(FlowId, u64)>,
}

/// The peer of a flow. Equal numbers are the same peer; they say nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerId(pub u64);

impl From<SlotKey> for PeerId {
    /// The peer of a link.
    fn from(link: SlotKey) -> Self {
        Self(link.to_bits())
    }
}

/// Something that bytes come by: a channel to read, a mapping that data is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId(SlotKey);

/// A flow cannot be guaranteed its least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "{flows} channels and mappings hold what the node takes from others ({bytes} bytes, of which \
     each of {peers} peers has {share} for certain): close some, or raise LinksOptions::budget"
)]
#[non_exhaustive]
pub struct FlowNoRoom {
    /// How many are open, of all peers.
    pub flows: u64,
    /// What they share.
    pub bytes: u64,
    /// How many peers have a share of that.
    pub peers: u64,
    /// The share of each.
    pub share: u64,
}

/// One piece that is larger than everything it could ever be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "a piece that needs {bytes} bytes, and the receiver takes at most {most}: raise \
     LinksOptions::budget of the receiver (Config::budget of its node), or send smaller pieces"
)]
pub struct NeverFits {
    /// What it needs.
    pub bytes: u64,
    /// What the flow can have.
    pub most: u64,
}

#[derive(Debug)]
struct FlowAccount {
    peer: PeerId,
    held: u64,
    window: u64,
    /// Asked for beyond its share, and not granted, for a piece that costs so much.
    wanted: u64,
    piece: u64,
}

impl FlowAccount {
    /// Whether the flow has no more than its window with what it wants: who is not read gets no third
    /// piece.
    fn is_within_window(&self, spare: u64) -> bool {
        let window = self.window.min(spare / SHARE).max(self.piece.saturating_mul(2));
        self.held.saturating_add(self.wanted) <= window || planted(Fault::Stuffed)
    }
}

impl FlowBudget {
    /// All of it free.
    #[must_use]
    pub fn new(terms: FlowTerms) -> Self {
        Self {
            terms,
            free: terms.bytes,
            reserved: 0,
            accounts: SlotTable::default(),
            peers: BTreeMap::new(),
            within: 0,
            waiting: VecDeque::new(),
            granted: VecDeque::new(),
        }
    }

    /// Shares it out among so many peers from now on.
    pub fn share_among(&mut self, peers: u64) {
        self.terms.peers = peers;
        let share = self.terms.share();
        self.within = self.peers.values().map(|charged| share.min(*charged)).sum();
    }

    /// Has so many bytes from now on, if that is more than it has.
    pub fn raise(&mut self, bytes: u64) {
        self.free += bytes.saturating_sub(self.terms.bytes);
        self.terms.bytes = self.terms.bytes.max(bytes);
        self.share_among(self.terms.peers);
        self.serve();
    }

    /// A flow of a peer that holds its guarantee: its sender may send that much.
    ///
    /// # Errors
    ///
    /// If so much is not free, or is other peers' share.
    pub fn open(&mut self, peer: PeerId) -> Result<FlowId, FlowNoRoom> {
        let guarantee = self.terms.guarantee;
        if self.spare_for(peer) < guarantee {
            let FlowTerms { bytes, peers, .. } = self.terms;
            return Err(FlowNoRoom {
                flows: self.flows(),
                bytes,
                peers,
                share: self.terms.share(),
            });
        }
        let account = FlowAccount { peer, held: guarantee, window: guarantee, wanted: 0, piece: 0 };
        self.charge(peer, |charged| charged + guarantee);
        self.free -= guarantee;
        Ok(FlowId(self.accounts.insert(account)))
    }

    /// The same, for a flow that holds more from the start, up to `most`: what its peer has not used of
    /// its share, and no more than a quarter of what is in no share.
    ///
    /// # Errors
    ///
    /// If not even the guarantee is free, or is other peers' share.
    pub fn open_with(&mut self, peer: PeerId, most: u64) -> Result<FlowId, FlowNoRoom> {
        let fair = self.fair_for(peer);
        let flow = self.open(peer)?;
        let more = most.min(fair).saturating_sub(self.terms.guarantee).min(self.spare_for(peer));
        self.charge(peer, |charged| charged + more);
        self.free -= more;
        self.account(flow).held += more;
        Ok(flow)
    }

    /// `bytes` that the flow held are the program's now. Returns what its sender is to be granted,
    /// which is nothing until it is worth a frame. `keen`: the reader has taken all there was, and
    /// the sender had little left to send.
    pub fn taken(&mut self, flow: FlowId, bytes: u64, keen: bool) -> u64 {
        self.give_back(flow, bytes);
        if keen {
            let most = self.terms.window_max.max(self.terms.guarantee);
            let account = self.account(flow);
            account.window = (account.window * 2).min(most);
        }
        let more = self.refill(flow);
        self.serve();
        more
    }

    /// The flow's sender has one piece that costs `bytes`, for which it lacks `lacking`. Returns
    /// what it is to be granted now; if that is nothing, [`poll_granted`](Self::poll_granted) will
    /// say when it is its turn.
    ///
    /// # Errors
    ///
    /// If that is more than it can ever have.
    pub fn want(&mut self, flow: FlowId, bytes: u64, lacking: u64) -> Result<u64, NeverFits> {
        let most = self.most_for(flow);
        if bytes > most {
            return Err(NeverFits { bytes, most });
        }
        if lacking == 0 {
            return Ok(0);
        }
        let window_max = self.terms.window_max;
        let account = self.account(flow);
        account.window = account.window.max(bytes.saturating_mul(2).min(window_max));
        let waited = account.wanted > 0;
        (account.wanted, account.piece) = (lacking, bytes);
        if self.fits(flow) {
            return Ok(self.grant_wanted(flow));
        }
        if !waited {
            self.waiting.push_back(flow);
        }
        Ok(0)
    }

    /// The flow's sender does not need what it asked for any more.
    pub fn withdraw(&mut self, flow: FlowId) {
        self.account(flow).wanted = 0;
        self.waiting.retain(|waits| *waits != flow);
    }

    /// The flow's sender gives back what it was granted and did not use.
    pub fn unused(&mut self, flow: FlowId, bytes: u64) {
        self.give_back(flow, bytes);
        let guarantee = self.terms.guarantee;
        let account = self.account(flow);
        account.window = (account.window / 2).max(guarantee);
        self.serve();
    }

    /// `bytes` that the flow held are free, and it is granted nothing any more: its sender has
    /// nothing to send, or has no reader.
    pub fn retire(&mut self, flow: FlowId, bytes: u64) {
        let told = |(granted, bytes): &(FlowId, u64)| if *granted == flow { *bytes } else { 0 };
        let untold: u64 = self.granted.iter().map(told).sum();
        self.granted.retain(|(granted, _)| *granted != flow);
        self.withdraw(flow);
        self.give_back(flow, bytes + untold);
        self.serve();
    }

    /// What was granted in turn, to be told to the flow's sender.
    pub fn poll_granted(&mut self) -> Option<(FlowId, u64)> {
        self.granted.pop_front()
    }

    /// Ends a flow. All that it held is free.
    pub fn close(&mut self, flow: FlowId) {
        let account = self.accounts.remove(flow.0).expect("closed once");
        self.free += fault::freed(account.held);
        self.reserved -= self.terms.guarantee.saturating_sub(account.held);
        let charged = account.held.max(self.terms.guarantee);
        self.charge(account.peer, |all| all - charged);
        self.waiting.retain(|waits| *waits != flow);
        self.granted.retain(|(told, _)| *told != flow);
        self.serve();
    }

    /// What a flow holds.
    #[must_use]
    pub fn held(&self, flow: FlowId) -> u64 {
        self.look(flow).held
    }

    /// The bytes that no flow holds.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.free
    }

    /// How it is shared out.
    #[must_use]
    pub const fn terms(&self) -> &FlowTerms {
        &self.terms
    }

    /// How many flows there are.
    #[must_use]
    pub const fn flows(&self) -> u64 {
        self.accounts.len() as u64
    }

    /// What the largest piece may cost, with as many flows as there are.
    #[must_use]
    pub const fn most(&self) -> u64 {
        let guarantee = self.terms.guarantee;
        let rest = self.terms.bytes.saturating_sub(self.floor() + self.flows() * guarantee);
        guarantee + rest / 2
    }

    /// What the largest piece of a flow may cost.
    fn most_for(&self, flow: FlowId) -> u64 {
        let most = self.most().max(self.most_of(flow));
        if planted(Fault::Believed) { u64::MAX } else { most }
    }

    /// What the largest piece of a flow may cost within the share of its peer, whatever others have.
    fn most_of(&self, flow: FlowId) -> u64 {
        let (guarantee, peer) = (self.terms.guarantee, self.look(flow).peer);
        let flows = self.accounts.values().filter(|account| account.peer == peer).count() as u64;
        let within = guarantee + self.terms.share().saturating_sub(flows * guarantee);
        if planted(Fault::Floored) { 0 } else { within }
    }

    /// Whose turn it is, if somebody waits: time to ask the other senders for what they do not
    /// use.
    #[must_use]
    pub fn first_waiting(&self) -> Option<FlowId> {
        self.waiting.front().copied()
    }

    /// All who wait, in that order.
    pub fn waiting(&self) -> impl Iterator<Item = FlowId> {
        self.waiting.iter().copied()
    }

    /// Grants what the flow may have beyond what it holds, if that is worth a frame.
    fn refill(&mut self, flow: FlowId) -> u64 {
        let guarantee = self.terms.guarantee;
        let account = self.look(flow);
        let spare = self.spare_for(account.peer);
        let target = account.window.min(fault::share_of(spare, SHARE)).max(guarantee);
        let more = target.saturating_sub(account.held);
        // The guarantee is set aside; what is more must be there.
        let above = (account.held + more).saturating_sub(account.held.max(guarantee));
        let more = more - above.saturating_sub(spare);
        if more == 0 || more < target / BATCH {
            return 0;
        }
        self.give(flow, more);
        more
    }

    /// Grants the oldest of those who wait what they want, as far as there is room.
    fn serve(&mut self) {
        let mut at = 0;
        while at < self.waiting.len() {
            let flow = self.waiting[at];
            if self.fits(flow) {
                self.waiting.remove(at);
                let bytes = self.grant_wanted(flow);
                self.granted.push_back((flow, bytes));
            } else {
                at += 1;
            }
        }
    }

    fn fits(&self, flow: FlowId) -> bool {
        let account = self.look(flow);
        let set_aside = self.terms.guarantee.saturating_sub(account.held);
        let spare = self.spare_for(account.peer);
        if !account.is_within_window(spare) {
            return false;
        }
        let above = account.wanted.saturating_sub(set_aside);
        // What is left of the share of a peer is there for it alone.
        let own = self.unused_share(account.peer).min(self.spare());
        above <= own
            || above.saturating_mul(2) <= spare.min(self.spare().saturating_sub(self.floor()))
            || planted(Fault::Greedy) && above <= self.spare()
    }

    /// What large pieces never get.
    const fn floor(&self) -> u64 {
        let (quarter, shares) = (self.terms.bytes / FLOOR, self.terms.share() * self.terms.peers);
        if quarter > shares { quarter } else { shares }
    }

    fn grant_wanted(&mut self, flow: FlowId) -> u64 {
        let bytes = self.look(flow).wanted;
        self.give(flow, bytes);
        bytes
    }

    fn give(&mut self, flow: FlowId, bytes: u64) {
        self.hold(flow, |held| held + bytes);
        let account = self.account(flow);
        let waited = account.wanted > 0;
        account.wanted = account.wanted.saturating_sub(bytes);
        if waited && account.wanted == 0 {
            self.waiting.retain(|waits| *waits != flow);
        }
    }

    fn give_back(&mut self, flow: FlowId, bytes: u64) {
        self.hold(flow, |held| held.checked_sub(bytes).expect("no more than it held"));
    }

    /// Changes what a flow holds.
    fn hold(&mut self, flow: FlowId, change: impl FnOnce(u64) -> u64) {
        let guarantee = self.terms.guarantee;
        let account = self.account(flow);
        let (peer, before) = (account.peer, account.held);
        let after = change(before);
        account.held = after;
        // Set aside is what it lacks of its guarantee.
        let (lacked, lacks) = (guarantee.saturating_sub(before), guarantee.saturating_sub(after));
        self.reserved -= lacked.saturating_sub(lacks);
        let aside = lacks.saturating_sub(lacked);
        self.reserved += fault::set_aside(aside);
        self.charge(peer, |charged| charged + after.max(guarantee) - before.max(guarantee));
        self.free = self.free + before - after;
    }

    /// Changes what a peer holds or has set aside.
    fn charge(&mut self, peer: PeerId, change: impl FnOnce(u64) -> u64) {
        let share = self.terms.share();
        let before = self.peers.get(&peer).copied().unwrap_or(0);
        let after = change(before);
        self.within = self.within + share.min(after) - share.min(before);
        match after {
            0 => self.peers.remove(&peer),
            after => self.peers.insert(peer, after),
        };
    }

    /// What is free, not set aside, and no share of another peer.
    fn spare_for(&self, peer: PeerId) -> u64 {
        let (share, own) = (self.terms.share(), self.unused_share(peer));
        let unused = (share * self.terms.peers).saturating_sub(self.within);
        let others = if planted(Fault::Unshared) { 0 } else { unused.saturating_sub(own) };
        self.spare().saturating_sub(others)
    }

    /// What a flow of a peer may hold from the start.
    fn fair_for(&self, peer: PeerId) -> u64 {
        let own = self.unused_share(peer);
        let fair = own + self.spare_for(peer).saturating_sub(own) / PART;
        if planted(Fault::Greedy) { u64::MAX } else { fair }
    }

    /// What a peer has not used of its share.
    fn unused_share(&self, peer: PeerId) -> u64 {
        self.terms.share().saturating_sub(self.peers.get(&peer).copied().unwrap_or(0))
    }

    /// What is free and not set aside.
    const fn spare(&self) -> u64 {
        self.free.saturating_sub(self.reserved)
    }

    fn look(&self, flow: FlowId) -> &FlowAccount {
        self.accounts.look(flow.0).expect("an open flow")
    }

    fn account(&mut self, flow: FlowId) -> &mut FlowAccount {
        self.accounts.get(flow.0).expect("an open flow")
    }
}

/// A flow holds at most this part of what is free.
const SHARE: u64 = 64;
/// A flow that holds more from the start leaves others all but this part of what is in no share.
const PART: u64 = 4;
/// A flow is granted more when this part of its window is gone.
const BATCH: u64 = 4;

/// How a [`FlowBudget`] is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowTerms {
    /// All there is.
    pub bytes: u64,
    /// What a flow may always hold.
    pub guarantee: u64,
    /// The most a flow holds without asking.
    pub window_max: u64,
    /// How many peers have a share of it each.
    pub peers: u64,
}

impl FlowTerms {
    /// The usual ones: 16 KiB for each flow, and never more than 4 MiB without asking.
    #[must_use]
    pub const fn of(bytes: u64) -> Self {
        Self { bytes, guarantee: 16 << 10, window_max: 4 << 20, peers: 0 }
    }

    /// With a share for each of so many peers: a quarter of everything, or up to half of it for
    /// two flows each. If not even one flow each is within that half, there are no shares.
    #[must_use]
    pub const fn shared_by(mut self, peers: u64) -> Self {
        self.peers = peers;
        self
    }

    /// The fewest bytes of which each peer has a share of two flows.
    #[must_use]
    pub const fn least(&self) -> u64 {
        self.peers * 2 * FLOWS_LEAST * self.guarantee
    }

    /// What each peer may hold, whatever the others do.
    #[must_use]
    pub const fn share(&self) -> u64 {
        if self.peers == 0 || self.guarantee == 0 {
            return 0;
        }
        let quarter = self.bytes / FLOOR / self.peers;
        let quarter = if quarter < self.guarantee { 0 } else { quarter };
        let half = self.bytes / 2 / self.peers / self.guarantee;
        let flows = if half < FLOWS_LEAST { half } else { FLOWS_LEAST };
        let least = flows * self.guarantee;
        if quarter > least { quarter } else { least }
    }
}

impl Default for FlowTerms {
    fn default() -> Self {
        Self::of(256 << 20)
    }
}

/// Flows that the share of a peer has room for, if half of everything is enough for that.
const FLOWS_LEAST: u64 = 2;
/// Large pieces leave this part of everything.
const FLOOR: u64 = 4;
