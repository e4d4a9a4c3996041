//! What a node knows of a channel that is written here.

use std::collections::VecDeque;
use std::task::Waker;

use egret_net::vi::Descriptor;

use super::inflow::TWICE;
use super::outflow::ChannelOutflow;
use super::post::{Post, PostOutcome, PostQueue};
use super::table::remember;
use crate::flow::SenderNotice;
use crate::frame::{FrameHead, FrameKind};
use crate::link::{ChannelRefusal, Fate, LinkError};
use crate::slots::SlotKey;
use crate::wakers::DeferredWaker;

/// A channel that is written here.
#[derive(Debug)]
pub(crate) struct WriterState {
    pub(super) link: SlotKey,
    phase: WriterPhase,
    /// Frames that the link has.
    under_way: usize,
    /// Whole messages that have gone, and those of which the link has the last frame, each with
    /// what its head says.
    gone: u64,
    unsettled: VecDeque<(u32, u64)>,
    /// Whole messages of which it is not known that they arrived, once the link is no more.
    lost: Vec<(u64, Fate)>,
    died: Option<LinkError>,
    abandoned: bool,
    waker: Option<DeferredWaker>,
    posts: PostQueue,
}

#[derive(Debug)]
enum WriterPhase {
    Opening,
    Open(ChannelOutflow, u32),
    Refused(ChannelRefusal),
}

/// How far the opening of a channel is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChannelOpening {
    Yes,
    Refused(ChannelRefusal),
    Died(LinkError),
}

impl WriterState {
    pub(super) fn new(link: SlotKey) -> Self {
        Self {
            link,
            phase: WriterPhase::Opening,
            under_way: 0,
            gone: 0,
            unsettled: VecDeque::new(),
            lost: Vec::new(),
            died: None,
            abandoned: false,
            waker: None,
            posts: PostQueue::default(),
        }
    }

    /// Whether it is open, once that is known.
    pub(crate) fn poll_opened(&mut self, waker: Option<&Waker>) -> Option<ChannelOpening> {
        match (&self.died, &self.phase) {
            (Some(why), _) => Some(ChannelOpening::Died(why.clone())),
            (None, WriterPhase::Open(..)) => Some(ChannelOpening::Yes),
            (None, WriterPhase::Refused(why)) => Some(ChannelOpening::Refused(*why)),
            (None, WriterPhase::Opening) => {
                remember(&mut self.waker, waker);
                None
            }
        }
    }

    pub(super) fn opened(
        &mut self,
        outgoing: ChannelOutflow,
        slot: u32,
    ) -> Result<(), &'static str> {
        if !matches!(self.phase, WriterPhase::Opening) {
            return Err(TWICE);
        }
        self.phase = WriterPhase::Open(outgoing, slot);
        self.feed();
        self.wake();
        Ok(())
    }

    pub(super) fn refused(&mut self, why: ChannelRefusal) {
        if matches!(self.phase, WriterPhase::Opening) {
            self.phase = WriterPhase::Refused(why);
        }
    }

    pub(super) fn slot(&self) -> Option<u32> {
        match &self.phase {
            WriterPhase::Open(_, slot) => Some(*slot),
            _ => None,
        }
    }

    /// The machine of a channel that is open, and why it is not of use if its link died.
    pub(crate) fn machine(&mut self) -> Result<&mut ChannelOutflow, LinkError> {
        match (&self.died, &mut self.phase) {
            (None, WriterPhase::Open(outgoing, _)) => Ok(outgoing),
            (Some(why), _) => Err(why.clone()),
            (None, _) => Err(LinkError::Closed),
        }
    }

    pub(super) fn outgoing(&mut self, hear: impl FnOnce(&mut ChannelOutflow)) {
        if let Ok(outgoing) = self.machine() {
            hear(outgoing);
        }
    }

    pub(super) fn poll_frame(&mut self) -> Option<Descriptor> {
        if self.under_way >= UNDER_WAY_MAX {
            return None;
        }
        self.feed();
        let frame = self.machine().ok()?.poll_frame()?;
        self.under_way += 1;
        if let Some(head) = FrameHead::from_bits(frame.tag())
            && head.kind == FrameKind::Last
        {
            self.gone += 1;
            self.unsettled.push_back((head.request, self.gone));
            self.posts.went(self.gone);
        }
        self.wake();
        Some(frame)
    }

    pub(super) fn poll_ask(&mut self) -> Option<SenderNotice> {
        self.machine().ok()?.flow.poll_ask()
    }

    /// A frame is back from the link: the peer has it, or what is known of it.
    pub(super) fn came_back(&mut self, head: FrameHead, fate: Option<Fate>) {
        self.under_way = self.under_way.saturating_sub(1);
        let known = |(request, _): &(u32, u64)| *request == head.request;
        if head.kind == FrameKind::Last
            && let Some(at) = self.unsettled.iter().position(known)
            && let Some((_, message)) = self.unsettled.remove(at)
        {
            self.posts.came_back(message, fate, self.died.is_some());
            self.lost.extend(fate.map(|fate| (message, fate)));
        }
        self.wake();
    }

    pub(super) fn died(&mut self, why: &LinkError) {
        // What waits is not sent, and its memory is its owner's again.
        self.outgoing(ChannelOutflow::stop);
        self.died = Some(why.clone());
        self.posts.died(why);
        self.wake();
    }

    /// Takes a message that goes by itself, behind those that were posted before.
    pub(crate) fn post(&mut self, post: Post) {
        match &self.died {
            Some(why) => post.lost(why),
            None => self.posts.push(post),
        }
    }

    /// Takes a message back that was posted and has not gone.
    pub(crate) fn withdraw(&mut self, posted: &PostOutcome) {
        if let (None, WriterPhase::Open(outgoing, _)) = (&self.died, &mut self.phase) {
            self.posts.withdraw(posted, outgoing);
        }
    }

    /// Whether messages that were posted have not gone.
    pub(crate) fn has_posts(&self) -> bool {
        !self.posts.is_empty()
    }

    /// Whether the peer has all whole messages that were written or posted here, or can have no more of them.
    pub(super) fn is_through(&self) -> bool {
        let is_flushed = match &self.phase {
            WriterPhase::Open(outgoing, _) => outgoing.is_flushed(),
            WriterPhase::Opening | WriterPhase::Refused(_) => true,
        };
        let is_empty = !self.has_posts() && self.unsettled.is_empty() && self.under_way == 0;
        self.died.is_some() || is_flushed && is_empty
    }

    /// Gives the machine what was posted; behind that, the end if the handle is gone.
    fn feed(&mut self) {
        if let (None, WriterPhase::Open(outgoing, _)) = (&self.died, &mut self.phase) {
            self.posts.feed(outgoing);
            if self.abandoned && self.posts.is_empty() {
                outgoing.end();
            }
        }
    }

    /// Its handle is gone.
    pub(super) fn abandon(&mut self) {
        self.abandoned = true;
        self.feed();
    }

    /// Whether no handle can ask for anything of it any more.
    pub(super) fn is_done(&self) -> bool {
        let over = match &self.phase {
            WriterPhase::Opening => false,
            WriterPhase::Open(outgoing, _) => outgoing.is_over() && self.under_way == 0,
            WriterPhase::Refused(_) => true,
        };
        self.abandoned && (over || self.died.is_some())
    }

    /// The link it goes by.
    pub(crate) const fn link(&self) -> SlotKey {
        self.link
    }

    /// Remembers the waker to wake when something happens to it.
    pub(crate) fn wait(&mut self, waker: Option<&Waker>) {
        remember(&mut self.waker, waker);
    }

    pub(super) fn wake(&mut self) {
        self.waker.take().into_iter().for_each(DeferredWaker::wake);
    }

    /// Whole messages that have gone, and how many of them are not known to have arrived.
    pub(crate) fn messages(&self) -> (u64, usize) {
        (self.gone, self.unsettled.len())
    }

    /// What became of those that are not known to have arrived, once the link is no more and has
    /// given all of them back.
    pub(crate) fn lost(&self) -> &[(u64, Fate)] {
        &self.lost
    }
}

/// Frames that a link has of one channel.
const UNDER_WAY_MAX: usize = 64;
