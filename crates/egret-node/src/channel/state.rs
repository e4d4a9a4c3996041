//! Channels among everything else that the links of a nic know.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};

use egret_net::vi::Descriptor;

use super::control::Control;
use super::incoming::Memory;
use super::table::Out;
use crate::link::arrived::Arrived;
use crate::link::lands::Flow;
use crate::link::{Fate, Kind, Lane, LinkError};
use crate::links::core::Core;
use crate::links::slots::Key;
use crate::links::state::State;

impl State {
    /// A frame of a channel has come.
    ///
    /// # Errors
    ///
    /// What no honest peer does.
    pub(crate) fn heard_channel(
        &mut self,
        link: Key,
        mut arrived: Arrived,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        let memory = match arrived.take_landed() {
            Some(buf) => Memory::Landed(buf),
            None => {
                let bytes = arrived.bytes();
                if matches!(head.kind, Kind::Part | Kind::Last) {
                    let lands = &self.live(link).map_err(|_| "a frame of no link")?.lands;
                    lands.spend(Flow::Channel(head.slot), bytes.len() as u64)?;
                }
                Memory::Small(bytes.to_vec())
            }
        };
        self.release(arrived);
        let heard = self.channels.hear(link, head, memory, &mut self.inflows);
        if head.kind == Kind::End
            && let Some(line) = self.links.get(link)
        {
            line.lands.close(Flow::Channel(head.slot));
        }
        self.drain_channels();
        heard
    }

    /// A frame of control of channels has come.
    ///
    /// # Errors
    ///
    /// What no honest peer does.
    pub(crate) fn heard_channel_control(
        &mut self,
        link: Key,
        control: Control,
    ) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        let heard = self.channels.hear_control(link, control, (line, &mut self.inflows));
        self.drain_channels();
        heard
    }

    /// A frame of a channel is back from the link: the peer has it, or what is known of it.
    pub(crate) fn channel_came_back(&mut self, link: Key, frame: Descriptor, fate: Option<Fate>) {
        self.channels.came_back(link, frame, fate);
        self.drain_channels();
    }

    /// Gives the links what channels have for them, after whatever happened to those.
    pub(crate) fn drain_channels(&mut self) {
        let mut last = None;
        while let Some((link, out)) = self.channels.poll_out() {
            if last.is_some_and(|last| last != link) {
                last.into_iter().for_each(|last| self.pump(last));
            }
            last = Some(link);
            self.give_link(link, out);
        }
        last.into_iter().for_each(|last| self.pump(last));
        self.tell_flows();
    }

    fn give_link(&mut self, link: Key, out: Out) {
        let Ok(line) = self.live(link) else {
            if let Out::Bulk(frame) = out {
                self.channels.came_back(link, frame, Some(Fate::NotDelivered));
            }
            return;
        };
        match out {
            Out::Control(control) => line.control(&control),
            Out::Bulk(frame) => line.push(Lane::Bulk, frame),
        }
    }

    /// A link is no more.
    pub(crate) fn end_channels(&mut self, link: Key, why: &LinkError) {
        self.channels.link_ended(link, why, &mut self.inflows);
        self.drain_channels();
    }
}

impl Core {
    /// Waits for what [`wait`](Self::wait) would, without a thread.
    pub(crate) fn step<T>(
        self: &Arc<Self>,
        mut ready: impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> impl Future<Output = T> {
        let core = Arc::clone(self);
        poll_fn(move |context| {
            core.poll();
            let found = core.state.with(|state| ready(state, Some(context.waker())));
            found.map_or(Poll::Pending, Poll::Ready)
        })
    }

    /// The same if it is there now.
    pub(crate) fn look<T>(
        self: &Arc<Self>,
        mut ready: impl FnMut(&mut State, Option<&Waker>) -> Option<T>,
    ) -> Option<T> {
        self.poll();
        self.state.with(|state| ready(state, None))
    }
}
