//! Links over lossy fabrics.

use egret_net::rt::Instant;
use egret_net::vi::{Completion, OpKind};

use super::slots::Key;
use super::state::{Line, State};
use crate::link::carrier::Carrier;
use crate::link::control::{Control, Hello};
use crate::link::window::link_of;
use crate::link::{LinkCounters, LinkError};

impl State {
    /// Something completed on a link with a window.
    pub(crate) fn datagram(&mut self, link: Key, completion: Completion) {
        if let Err(why) = &completion.status
            && completion.op == OpKind::Recv
        {
            return self.broke(link, &why.clone());
        }
        let now = self.fixed.nic.now();
        let Some(line) = self.links.get(link) else { return };
        let Carrier::Windowed(windowed) = &mut line.carrier else { return };
        if let Err(lie) = windowed.completed(now, completion) {
            return self.cut_off(link, &lie.to_string());
        }
        self.windows.insert(link);
        self.take_arrived(link);
    }

    /// Takes what the window has put together, and what it got rid of.
    fn take_arrived(&mut self, link: Key) {
        while let Some(Line { carrier: Carrier::Windowed(windowed), ended: None, .. }) =
            self.links.get(link)
        {
            if let Some(frame) = windowed.window.poll_sent() {
                self.acknowledged(link, frame);
            } else if let Some(arrived) = windowed.poll_arrived() {
                if let Err(why) = arrived.and_then(|arrived| self.hear(link, arrived)) {
                    self.cut_off(link, why);
                }
            } else {
                return;
            }
        }
    }

    /// Sends what is due, and finds who is silent.
    pub(crate) fn tick_windows(&mut self) {
        let now = self.fixed.nic.now();
        for link in std::mem::take(&mut self.windows) {
            let Some(line) = self.links.get(link).filter(|line| line.ended.is_none()) else {
                continue;
            };
            line.pump();
            let Carrier::Windowed(windowed) = &mut line.carrier else { continue };
            windowed.flush(now);
            let is_silent = windowed.window.is_silent(now);
            let is_due = windowed.window.next_event().is_some();
            if let Some(why) = line.carrier.broken() {
                self.broke(link, &why);
            } else if is_silent {
                let why = "it has not acknowledged anything for too long";
                self.end(link, |peer| LinkError::PeerDied { peer, why });
            } else if is_due {
                self.windows.insert(link);
            }
        }
    }

    /// What the links have done, those that live included.
    pub(crate) fn count(&mut self) -> LinkCounters {
        let mut counters = self.counters;
        for (_, line) in self.links.iter_mut().filter(|(_, line)| line.ended.is_none()) {
            line.carrier.count(&mut counters);
        }
        counters
    }

    /// When something is due.
    pub(crate) fn next_timer(&mut self) -> Option<Instant> {
        let timers = [self.opening.next_event(), self.next_parting(), self.alarms.next()];
        let mut next = timers.into_iter().flatten().min();
        for link in &self.windows {
            if let Some(Line { carrier: Carrier::Windowed(windowed), .. }) = self.links.get(*link) {
                next = next.into_iter().chain(windowed.window.next_event()).min();
            }
        }
        next
    }

    /// The first datagram of a stranger, with which its link begins.
    pub(crate) fn stranger_sent(&mut self, stranger: Key, completion: Completion) {
        let number = link_of(completion.bytes()).filter(|_| completion.status.is_ok());
        let Some(number) = number else {
            if completion.status.is_err() {
                self.send_away(stranger);
            }
            return;
        };
        let Some((vi, lands)) = self.opening.take_stranger(stranger) else { return };
        let peer = vi.peer().to_owned();
        let link = self.add_line(&peer, vi, lands, number, false);
        self.opening.expect_hello(link, self.fixed.nic.now());
        self.datagram(link, completion);
    }

    /// The hello of a stranger over a lossy fabric.
    pub(crate) fn greeted_lossy(&mut self, link: Key, hello: &Hello) -> Result<(), &'static str> {
        if self.links.get(link).is_none_or(|line| line.peer != hello.host) {
            return Err("a hello in another's name");
        }
        let Some(why) = self.turn_down(hello) else {
            self.welcome(link, hello);
            return Ok(());
        };
        let line = self.links.get(link).ok_or("no link")?;
        line.control(&why);
        // It is closed when its time for a hello is over.
        line.parts = matches!(why, Control::Full { .. });
        self.pump(link);
        Ok(())
    }
}
