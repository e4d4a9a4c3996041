//! Channels among everything else that the links of a nic know.

use egret_net::vi::Descriptor;

use super::state::LinksState;
use crate::channel_table::{ChannelOutput, PartMemory};
use crate::flow::InflowKey;
use crate::frame::{ArrivedFrame, FrameKind, LinkLane};
use crate::link::{ChannelControl, Fate, LinkError};
use crate::slots::SlotKey;

impl LinksState {
    /// A frame of a channel has come.
    ///
    /// # Errors
    ///
    /// What no honest peer does.
    pub(crate) fn heard_channel(
        &mut self,
        link: SlotKey,
        mut arrived: ArrivedFrame,
    ) -> Result<(), &'static str> {
        let head = arrived.head;
        let memory = match arrived.take_landed() {
            Some(buf) => PartMemory::Landed(buf),
            None => {
                let bytes = arrived.bytes();
                if matches!(head.kind, FrameKind::Part | FrameKind::Last) {
                    let lands = &self.links.live(link).map_err(|_| "a frame of no link")?.lands;
                    lands.spend(InflowKey::Channel(head.slot), bytes.len() as u64)?;
                }
                PartMemory::Small(bytes.to_vec())
            }
        };
        self.release(arrived);
        let heard = self.channels.hear(link, head, memory, &mut self.inflows);
        if head.kind == FrameKind::End
            && let Some(line) = self.links.get(link)
        {
            line.lands.close(InflowKey::Channel(head.slot));
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
        link: SlotKey,
        control: ChannelControl,
    ) -> Result<(), &'static str> {
        let line = self.links.get(link).ok_or("no link")?;
        let heard = self.channels.hear_control(
            link,
            control,
            ((&line.peer, &line.lands), &mut self.inflows),
        );
        self.drain_channels();
        heard
    }

    /// A frame of a channel is back from the link: the peer has it, or what is known of it.
    pub(crate) fn channel_came_back(
        &mut self,
        link: SlotKey,
        frame: Descriptor,
        fate: Option<Fate>,
    ) {
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

    fn give_link(&mut self, link: SlotKey, out: ChannelOutput) {
        let Ok(line) = self.links.live(link) else {
            if let ChannelOutput::Bulk(frame) = out {
                self.channels.came_back(link, frame, Some(Fate::NotDelivered));
            }
            return;
        };
        match out {
            ChannelOutput::Control(control) => line.control(&control),
            ChannelOutput::Bulk(frame) => line.push(LinkLane::Bulk, frame),
        }
    }

    /// A link is no more.
    pub(crate) fn end_channels(&mut self, link: SlotKey, why: &LinkError) {
        self.channels.link_ended(link, why, &mut self.inflows);
        self.drain_channels();
    }
}
