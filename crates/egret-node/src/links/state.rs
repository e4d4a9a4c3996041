//! The state of all links of a nic, behind one lock: its tables, what completions do to them, and how
//! a link ends.

use std::collections::{BTreeMap, VecDeque};

use std::task::Waker;

use egret_net::buf::Buf;
use egret_net::rt::Instant;
use egret_net::vi::{Completion, Descriptor, OpKind, ViError, ViId};

use super::alarm::AlarmQueue;
use super::allow_list::AllowList;
use super::closing::LinksClosing;
use super::core::LinksSetup;
use super::opening::LinkOpening;
use super::path::PathTable;
use super::table::{ConnectionOwner, ConnectionOwners, LinkTable};
use crate::am::fault::{Fault, planted};
use crate::am::{BundleState, EndpointState, Upcall};
use crate::channel_table::ChannelTable;
use crate::flow::{FlowBudget, FlowTerms, Inflows};
use crate::frame::{ArrivedFrame, FrameHead, FrameKind, LinkLane};
use crate::link::{Fate, LinkCounters, LinkError};
use crate::slots::{SlotKey, SlotTable};
use crate::wakers::WakerList;

/// The state of the links of a nic. Each part has a file with its type and rules; the methods of this
/// type are those that concern several parts.
pub(crate) struct LinksState {
    pub(crate) fixed: LinksSetup,
    pub(crate) endpoints: SlotTable<EndpointState>,
    pub(crate) names: BTreeMap<String, SlotKey>,
    pub(crate) links: LinkTable,
    pub(super) connections: ConnectionOwners,
    pub(crate) bundles: SlotTable<BundleState>,
    pub(crate) upcalls: VecDeque<Box<Upcall>>,
    /// Boxes of upcalls that were served, to be used again.
    #[expect(clippy::vec_box, reason = "what is kept is the boxes")]
    pub(crate) spare: Vec<Box<Upcall>>,
    /// Bundles with upcalls whose thread has left them to another.
    pub(crate) left: VecDeque<SlotKey>,
    /// Buffers of frames that were handled, to be used again.
    pub(super) scratch: Vec<Vec<u8>>,
    /// Short frames that were drained, and are handled after the drain.
    pub(super) drained: Vec<(ViId, Result<ArrivedFrame, &'static str>)>,
    /// Completions that have failed, until all short frames that came before are handled.
    failed: Vec<Completion>,
    /// Tasks that are to be woken at a moment.
    pub(super) alarms: AlarmQueue,
    pub(crate) inflows: Inflows,
    /// The budget of messages that peers may have under way, by their mappings.
    pub(crate) admitted: FlowBudget,
    pub(crate) channels: ChannelTable,
    pub(crate) opening: LinkOpening,
    pub(super) allowed: AllowList,
    /// How many links this side has called for; the number of the last one.
    pub(super) numbers: u64,
    pub(crate) paths: PathTable,
    pub(crate) parting: Option<LinksClosing>,
    /// When the frames that are being handled were received, once a handler of frames has asked.
    pub(super) came: Option<Instant>,
    /// How many handlers have run.
    pub(crate) jobs: u64,
    /// Whether the thread that drives waits for an event that another thread may cause.
    pub(crate) role_waits: bool,
    /// Tasks that wait for a handler to have run.
    pub(crate) servers: WakerList,
    /// Whether the links are closed: none is made any more.
    pub(crate) closed: bool,
    pub(crate) counters: LinkCounters,
    /// Why a link was cut off last.
    pub(crate) cut_off_last: Option<LinkError>,
}

impl LinksState {
    pub(crate) fn new(fixed: LinksSetup, opening: LinkOpening, paths: PathTable) -> Self {
        let peers = u64::from(fixed.options.peers_max);
        let terms = FlowTerms::of(fixed.options.budget).shared_by(peers);
        Self {
            endpoints: SlotTable::default(),
            names: BTreeMap::new(),
            links: LinkTable::default(),
            connections: ConnectionOwners::default(),
            upcalls: VecDeque::new(),
            spare: Vec::new(),
            left: VecDeque::new(),
            bundles: SlotTable::default(),
            scratch: Vec::new(),
            drained: Vec::new(),
            failed: Vec::new(),
            alarms: AlarmQueue::default(),
            inflows: Inflows::new(FlowBudget::new(terms)),
            admitted: FlowBudget::new(fixed.options.admits()),
            fixed,
            channels: ChannelTable::new(),
            opening,
            allowed: AllowList::default(),
            numbers: 0,
            paths,
            parting: None,
            came: None,
            jobs: 0,
            role_waits: false,
            servers: WakerList::default(),
            closed: false,
            counters: LinkCounters::default(),
            cut_off_last: None,
        }
    }

    /// When the frames that are being handled were received: the clock is read once for all of them.
    #[inline]
    pub(crate) fn came(&mut self) -> Instant {
        *self.came.get_or_insert_with(|| self.fixed.nic.now())
    }

    /// Sends what waits to be sent by a link.
    #[inline]
    pub(crate) fn pump(&mut self, link: SlotKey) {
        if self.links.pump(link) {
            self.cut_off(link, "it sends requests and does not receive their answers");
        }
    }

    /// Handles a completion; a failed one only [later](Self::end_broken).
    #[inline]
    pub(crate) fn completed_or_put_aside(&mut self, completion: Completion) {
        if completion.status.is_ok() {
            self.completed(completion);
        } else {
            self.failed.push(completion);
        }
    }

    /// Handles failed completions and ends broken links: all frames that came before were handled.
    #[inline]
    pub(crate) fn end_broken(&mut self) {
        if !self.failed.is_empty() {
            for completion in std::mem::take(&mut self.failed) {
                self.completed(completion);
            }
        }
        for (link, why) in self.links.take_broken() {
            self.broke(link, &why);
        }
    }

    /// When something is due without anything arriving.
    #[inline]
    pub(crate) fn next_event(&mut self) -> Option<Instant> {
        if !self.is_busy() && !self.alarms.is_told() {
            return None;
        }
        self.next_timer()
    }

    /// How many handlers were run, if that is more than `before`.
    #[inline]
    pub(crate) fn has_served(&mut self, before: u64, waker: Option<&Waker>) -> Option<u64> {
        if self.jobs == before {
            self.servers.wait(waker);
            self.role_waits |= waker.is_none();
            return None;
        }
        Some(self.jobs)
    }

    /// The counters, with those of links that have not ended.
    pub(crate) fn count(&mut self) -> LinkCounters {
        let mut counters = self.counters;
        for (_, line) in self.links.iter_mut().filter(|(_, line)| line.ended.is_none()) {
            line.carrier.count(&mut counters);
        }
        counters.path_dropped += self.paths.dropped();
        counters
    }

    /// When something is due.
    pub(crate) fn next_timer(&mut self) -> Option<Instant> {
        let timers = [self.opening.next_event(), self.next_parting(), self.alarms.next()];
        timers.into_iter().flatten().min()
    }

    /// Closes a link on this side.
    pub(crate) fn close_link(&mut self, link: SlotKey) {
        self.end(link, |_| LinkError::Closed);
    }

    /// Whether there is work that no completion announces.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.alarms.is_set() || self.is_busy_opening() || self.parting.is_some()
    }

    #[cold]
    pub(crate) fn look_after(&mut self) {
        if self.is_busy_opening() {
            self.open_more();
        }
        self.part_more();
        self.ring_alarms();
    }

    /// Handles a completion.
    #[inline]
    pub(crate) fn completed(&mut self, completion: Completion) {
        match self.connections.owner(completion.vi) {
            Some(ConnectionOwner::Link(link)) if completion.op == OpKind::Recv => {
                self.received(link, completion);
            }
            Some(ConnectionOwner::Link(link)) => self.sent(link, completion),
            // The connection has ended, or its peer has posted before its hello.
            Some(ConnectionOwner::Stranger(stranger)) => self.send_away(stranger),
            Some(ConnectionOwner::Path(path)) => self.path_broke(path, &completion),
            None => {}
        }
    }

    /// A frame of the bulk lane. Its receive, whose own memory is copied, is posted again at once.
    #[inline]
    fn received(&mut self, link: SlotKey, completion: Completion) {
        if let Err(why) = &completion.status {
            return self.broke(link, &why.clone());
        }
        if let Some(line) = self.links.get(link) {
            line.carrier.count_bytes(completion.len);
        }
        let head = FrameHead::from_bits(completion.tag);
        let len = usize::try_from(completion.len).unwrap_or(usize::MAX);
        let mut receive = completion.into_descriptor();
        let landed = receive.take_landed();
        let own = &receive.bytes()[..len - landed.as_ref().map_or(0, Buf::len)];
        let own = self.copied(own);
        self.give_back(link, receive);
        let heard = match head {
            Some(head) if head.kind.lane() != LinkLane::Bulk => Err("a frame on the wrong lane"),
            Some(head) => self.hear(link, ArrivedFrame::from_parts(head, landed, own)),
            None => Err("a frame of an unknown kind"),
        };
        if let Err(why) = heard {
            self.cut_off(link, why);
        }
    }

    /// Posts `receive` again.
    #[inline]
    fn give_back(&mut self, link: SlotKey, receive: Descriptor) {
        if let Some(line) = self.links.get(link)
            && !planted(Fault::NotPosted)
        {
            line.carrier.receive(receive);
        }
    }

    #[inline]
    fn sent(&mut self, link: SlotKey, completion: Completion) {
        if let Err(why) = &completion.status
            && !matches!(why, ViError::RemoteAccess(_))
        {
            // A frame of a link that is not known to have ended: the connection has failed.
            self.broke(link, &why.clone());
        }
        let Some(line) = self.links.get(link) else { return };
        line.carrier.sent();
        if matches!(completion.op, OpKind::Read | OpKind::Write) {
            if completion.op == OpKind::Read && completion.status.is_ok() {
                line.carrier.count_bytes(completion.len);
            }
            self.accessed(link, completion);
            return self.forget_if_ended(link);
        }
        let ok = completion.status.is_ok();
        let frame = completion.into_descriptor();
        if ok {
            self.acknowledged(link, frame);
        } else {
            self.undelivered(link, frame, Fate::Unknown);
        }
        if let Some(line) = self.links.get(link) {
            if line.ended.is_some() {
                self.forget_if_done(link);
            } else if !line.is_idle() {
                self.pump(link);
            }
        }
    }

    /// The peer has acknowledged a posted frame.
    #[inline]
    pub(crate) fn acknowledged(&mut self, link: SlotKey, frame: Descriptor) {
        if frame.tag() >> 60 >= FrameKind::Part as u64 {
            self.channel_came_back(link, frame, None);
        } else if frame.tag() >> 60 >= FrameKind::Bulk as u64 {
            self.sent_data(link, frame);
        }
    }

    /// Ends a link whose connection has failed.
    #[cold]
    pub(crate) fn broke(&mut self, link: SlotKey, why: &ViError) {
        self.end(link, |peer| LinkError::of(&peer, why));
    }

    /// Ends a link whose peer has broken the protocol.
    #[cold]
    pub(crate) fn cut_off(&mut self, link: SlotKey, why: &str) {
        self.end(link, |peer| LinkError::CutOff { peer, why: why.to_owned() });
    }

    /// Ends a link, and settles what becomes of every message that is under way.
    #[cold]
    pub(crate) fn end(&mut self, link: SlotKey, why: impl FnOnce(String) -> LinkError) {
        let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else { return };
        // The peer, which was told the reason, may be faster in closing the link.
        let why = if line.parts { LinkError::Closed } else { why(line.peer.clone()) };
        line.ended = Some(why.clone());
        self.counters.ended += 1;
        if let LinkError::CutOff { peer, why: reason } = &why {
            self.counters.cut_off += 1;
            self.cut_off_last = Some(why.clone());
            if let Some(others) = self.opening.cut_off.permit(self.fixed.nic.now()) {
                tracing::warn!(peer, others, "cut off: {reason}");
            }
        }
        line.carrier.count(&mut self.counters);
        let mut unsent = line.carrier.close();
        let never = Fate::NotDelivered;
        unsent.extend(line.take_waiting().into_iter().map(|frame| (frame, never)));
        for lane in LinkLane::ALL {
            unsent.extend(std::iter::from_fn(|| Some((line.pop(lane)?, never))));
        }
        let peer = line.peer.clone();
        self.links.leave_host(&peer, link);
        for (frame, fate) in unsent {
            self.undelivered(link, frame, fate);
        }
        self.end_tables(link, &why);
        self.end_channels(link, &why);
        self.end_paths(link, &why);
        self.opening.link_ended(&peer, link, &why);
        self.forget_if_done(link);
    }

    /// As `forget_if_done`, where links have seldom ended.
    #[inline]
    pub(crate) fn forget_if_ended(&mut self, link: SlotKey) {
        if self.links.get(link).is_some_and(|line| line.ended.is_some()) {
            self.forget_if_done(link);
        }
    }

    /// Removes a link that has ended, once no call, mapping or posted frame refers to it.
    pub(crate) fn forget_if_done(&mut self, link: SlotKey) {
        let Some(line) = self.links.get(link) else { return };
        if line.ended.is_none() || !line.carrier.is_quiet() {
            return;
        }
        self.remove_unmapped(link);
        let Some(line) = self.links.get(link) else { return };
        let am = &line.am;
        if am.calls.len() == 0
            && am.outgoing.len() == 0
            && let Some(line) = self.links.remove(link)
        {
            self.connections.remove(line.carrier.id());
        }
    }
}
