//! The tables of all links, and what happens in them when something completes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use std::task::Waker;

use egret_net::buf::Buf;
use egret_net::rt::Instant;
use egret_net::vi::{Completion, Descriptor, OpKind, ViError, ViId};

use super::alarm::Alarms;
use super::allowed::Allowed;
use super::behind::Waiters;
use super::core::Fixed;
pub(crate) use super::line::Line;
use super::opening::Opening;
use super::parting::Parting;
use super::path::Paths;
use super::slots::{Key, Slots};
use crate::am::fault::{Fault, planted};
use crate::am::{BundleState, EndpointState, SendError, Upcall};
use crate::channel::table::Channels;
use crate::flow::{Budget, FlowTerms, Inflows};
use crate::link::arrived::Arrived;
use crate::link::{Fate, Head, Kind, Lane, LinkCounters, LinkError};

/// Everything that the links of a nic know.
pub(crate) struct State {
    pub(crate) fixed: Fixed,
    pub(crate) endpoints: Slots<EndpointState>,
    pub(crate) names: BTreeMap<String, Key>,
    pub(crate) links: Slots<Line>,
    /// The link to use for each host.
    pub(crate) hosts: BTreeMap<String, Key>,
    vis: BTreeMap<ViId, Place>,
    /// The connection that something completed on last.
    last: Option<(ViId, Place)>,
    pub(crate) bundles: Slots<BundleState>,
    pub(crate) upcalls: VecDeque<Box<Upcall>>,
    /// Boxes of what was served, to be used again.
    #[expect(clippy::vec_box, reason = "what is kept is the boxes")]
    pub(crate) spare: Vec<Box<Upcall>>,
    /// Bundles with upcalls whose thread has left.
    pub(crate) left: VecDeque<Key>,
    /// Memory for frames, to be used again.
    pub(super) scratch: Vec<Vec<u8>>,
    /// Short frames that were drained, and are to be heard.
    pub(super) drained: Vec<(ViId, Result<Arrived, &'static str>)>,
    /// Links whose short frames wait for room.
    pub(super) blocked: BTreeSet<Key>,
    /// What has failed, and links that are known to be broken, until all short frames that came
    /// before are heard.
    failed: Vec<Completion>,
    broken: BTreeSet<Key>,
    /// Tasks that are to be woken at a moment.
    pub(super) alarms: Alarms,
    pub(crate) inflows: Inflows,
    /// Messages that peers may have under way, by their mappings.
    pub(crate) admitted: Budget,
    pub(crate) channels: Channels,
    pub(crate) opening: Opening,
    pub(super) allowed: Allowed,
    /// Links that were called for, ever: each has a higher number.
    pub(super) numbers: u64,
    pub(crate) paths: Paths,
    pub(crate) parting: Option<Parting>,
    /// When what is fed just now was taken in, if that was asked for.
    pub(super) came: Option<Instant>,
    /// Handlers that were run.
    pub(crate) jobs: u64,
    /// Whether who drives waits for what another thread may do.
    pub(crate) role_waits: bool,
    /// Who waits for one to be run.
    pub(crate) servers: Waiters,
    /// Whether no links are made any more.
    pub(crate) closed: bool,
    pub(crate) counters: LinkCounters,
    /// Why the last one was cut off.
    pub(crate) cut_off_last: Option<LinkError>,
}

/// What a connection belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place {
    Link(Key),
    Stranger(Key),
    Path(Key),
}

impl State {
    pub(crate) fn new(fixed: Fixed, opening: Opening, paths: Paths) -> Self {
        let peers = u64::from(fixed.options.peers_max);
        let terms = FlowTerms::of(fixed.options.budget).shared_by(peers);
        Self {
            endpoints: Slots::default(),
            names: BTreeMap::new(),
            links: Slots::default(),
            hosts: BTreeMap::new(),
            vis: BTreeMap::new(),
            last: None,
            upcalls: VecDeque::new(),
            spare: Vec::new(),
            left: VecDeque::new(),
            bundles: Slots::default(),
            scratch: Vec::new(),
            drained: Vec::new(),
            blocked: BTreeSet::new(),
            failed: Vec::new(),
            broken: BTreeSet::new(),
            alarms: Alarms::default(),
            inflows: Inflows::new(Budget::new(terms)),
            admitted: Budget::new(fixed.options.admits()),
            fixed,
            channels: Channels::new(),
            opening,
            allowed: Allowed::default(),
            numbers: 0,
            paths,
            parting: None,
            came: None,
            jobs: 0,
            role_waits: false,
            servers: Waiters::default(),
            closed: false,
            counters: LinkCounters::default(),
            cut_off_last: None,
        }
    }

    /// A link that lives.
    ///
    /// # Errors
    ///
    /// Why it does not.
    #[inline]
    pub(crate) fn live(&mut self, link: Key) -> Result<&mut Line, LinkError> {
        let Some(line) = self.links.get(link) else { return Err(LinkError::Closed) };
        match &line.ended {
            None => Ok(line),
            Some(why) => Err(why.clone()),
        }
    }

    /// A link that lives, and has this mapping.
    #[inline]
    pub(crate) fn live_mapping(&mut self, link: Key, number: Key) -> Result<&mut Line, SendError> {
        let line = self.live(link)?;
        match line.am.outgoing.get(number) {
            Some(_) => Ok(line),
            None => Err(SendError::Unmapped),
        }
    }

    /// When what is fed just now was taken in: the clock is asked once for all of it.
    #[inline]
    pub(crate) fn came(&mut self) -> Instant {
        *self.came.get_or_insert_with(|| self.fixed.nic.now())
    }

    /// Sends what waits to be sent.
    #[inline]
    pub(crate) fn pump(&mut self, link: Key) {
        if self.links.get(link).is_some_and(|line| line.has_more()) {
            self.pump_more(link);
        }
    }

    fn pump_more(&mut self, link: Key) {
        if let Some(line) = self.links.get(link) {
            if line.pump() {
                self.blocked.insert(link);
            }
            let broken = line.carrier.broken();
            if line.is_flooded() {
                self.cut_off(link, "it asks, and does not listen");
            } else if broken.is_some() {
                self.broken.insert(link);
            }
        }
    }

    /// Takes what has completed; what has failed is for [later](Self::end_broken).
    #[inline]
    pub(crate) fn completed_or_put_aside(&mut self, completion: Completion) {
        if completion.status.is_ok() {
            self.completed(completion);
        } else {
            self.failed.push(completion);
        }
    }

    /// Ends what is known to have ended: all that came before was heard.
    #[inline]
    pub(crate) fn end_broken(&mut self) {
        if !self.failed.is_empty() {
            for completion in std::mem::take(&mut self.failed) {
                self.completed(completion);
            }
        }
        if !self.broken.is_empty() {
            for link in std::mem::take(&mut self.broken) {
                let broken = self.links.get(link).and_then(|line| line.carrier.broken());
                if let Some(why) = broken {
                    self.broke(link, &why);
                }
            }
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

    /// What the links have done, those that live included.
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
    pub(crate) fn close_link(&mut self, link: Key) {
        self.end(link, |_| LinkError::Closed);
    }

    /// Whether there is something to do that nothing completes for.
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

    /// Something has completed.
    #[inline]
    pub(crate) fn completed(&mut self, completion: Completion) {
        match self.place(completion.vi) {
            Some(Place::Link(link)) if completion.op == OpKind::Recv => {
                self.received(link, completion);
            }
            Some(Place::Link(link)) => self.sent(link, completion),
            // It has ended, or has not said hello.
            Some(Place::Stranger(stranger)) => self.send_away(stranger),
            Some(Place::Path(path)) => self.path_broke(path, &completion),
            None => {}
        }
    }

    #[inline]
    pub(super) fn place(&mut self, vi: ViId) -> Option<Place> {
        if let Some((last, place)) = self.last
            && last == vi
        {
            return Some(place);
        }
        let place = self.vis.get(&vi).copied()?;
        self.last = Some((vi, place));
        Some(place)
    }

    pub(crate) fn set_place(&mut self, vi: ViId, place: Option<Place>) {
        self.last = None;
        match place {
            Some(place) => self.vis.insert(vi, place),
            None => self.vis.remove(&vi),
        };
    }

    /// A frame of the bulk lane. Its receive, whose own memory is copied, is posted again at once.
    #[inline]
    fn received(&mut self, link: Key, completion: Completion) {
        if let Err(why) = &completion.status {
            return self.broke(link, &why.clone());
        }
        let head = Head::from_bits(completion.tag);
        let len = usize::try_from(completion.len).unwrap_or(usize::MAX);
        let mut receive = completion.into_descriptor();
        let landed = receive.take_landed();
        let own = &receive.bytes()[..len - landed.as_ref().map_or(0, Buf::len)];
        let own = self.copied(own);
        self.give_back(link, receive);
        let heard = match head {
            Some(head) if head.kind.lane() != Lane::Bulk => Err("a frame on the wrong lane"),
            Some(head) => self.hear(link, Arrived::from_parts(head, landed, own)),
            None => Err("a frame of no kind"),
        };
        if let Err(why) = heard {
            self.cut_off(link, why);
        }
    }

    /// Receives into `receive` again.
    #[inline]
    fn give_back(&mut self, link: Key, receive: Descriptor) {
        if let Some(line) = self.links.get(link)
            && !planted(Fault::NotPosted)
        {
            line.carrier.receive(receive);
        }
    }

    #[inline]
    fn sent(&mut self, link: Key, completion: Completion) {
        if let Err(why) = &completion.status
            && !matches!(why, ViError::RemoteAccess(_))
        {
            // It is with the fabric until the link is known to be no more: so it is told.
            self.broke(link, &why.clone());
        }
        let Some(line) = self.links.get(link) else { return };
        line.carrier.sent();
        if matches!(completion.op, OpKind::Read | OpKind::Write) {
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

    /// The peer has a frame.
    #[inline]
    pub(crate) fn acknowledged(&mut self, link: Key, frame: Descriptor) {
        if frame.tag() >> 60 >= Kind::Part as u64 {
            self.channel_came_back(link, frame, None);
        } else if frame.tag() >> 60 >= Kind::Bulk as u64 {
            self.sent_data(link, frame);
        }
    }

    /// A connection failed.
    #[cold]
    pub(crate) fn broke(&mut self, link: Key, why: &ViError) {
        self.end(link, |peer| LinkError::of(&peer, why));
    }

    /// The peer did what no honest one does.
    #[cold]
    pub(crate) fn cut_off(&mut self, link: Key, why: &str) {
        self.end(link, |peer| LinkError::CutOff { peer, why: why.to_owned() });
    }

    /// Ends a link, and accounts for everything that is under way.
    #[cold]
    pub(crate) fn end(&mut self, link: Key, why: impl FnOnce(String) -> LinkError) {
        let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else { return };
        // Who was told so may be faster in closing it.
        let why = if line.parts { LinkError::Closed } else { why(line.peer.clone()) };
        line.ended = Some(why.clone());
        self.counters.ended += 1;
        if let LinkError::CutOff { peer, why: reason } = &why {
            self.counters.cut_off += 1;
            self.cut_off_last = Some(why.clone());
            if let Some(others) = self.opening.cut_off.say(self.fixed.nic.now()) {
                tracing::warn!(peer, others, "cut off: {reason}");
            }
        }
        line.carrier.count(&mut self.counters);
        let mut unsent = line.carrier.close();
        let never = Fate::NotDelivered;
        unsent.extend(line.take_waiting().into_iter().map(|frame| (frame, never)));
        for lane in Lane::ALL {
            unsent.extend(std::iter::from_fn(|| Some((line.pop(lane)?, never))));
        }
        let peer = line.peer.clone();
        if self.hosts.get(&peer) == Some(&link) {
            self.hosts.remove(&peer);
        }
        for (frame, fate) in unsent {
            self.undelivered(link, frame, fate);
        }
        self.end_tables(link, &why);
        self.end_channels(link, &why);
        self.end_paths(link, &why);
        self.opening.link_ended(&peer, link, &why);
        self.forget_if_done(link);
    }

    /// The same, where links seldom are dead.
    #[inline]
    pub(crate) fn forget_if_ended(&mut self, link: Key) {
        if self.links.get(link).is_some_and(|line| line.ended.is_some()) {
            self.forget_if_done(link);
        }
    }

    /// Forgets a dead link when nobody can ask for anything of it.
    pub(crate) fn forget_if_done(&mut self, link: Key) {
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
            self.set_place(line.carrier.id(), None);
        }
    }
}
