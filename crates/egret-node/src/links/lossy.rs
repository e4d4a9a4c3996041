//! Links over lossy fabrics.

use std::sync::Arc;

use egret_net::rt::{self, Instant};
use egret_net::vi::{Completion, Landing, OpKind};

use super::slots::Key;
use super::state::{Line, Place, State};
use crate::link::carrier::Carrier;
use crate::link::control::Control;
use crate::link::window::link_of;
use crate::link::windowed::{Windowed, post_datagrams};
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
        let mut next = self.opening.next_event().into_iter().chain(self.next_parting()).min();
        for link in &self.windows {
            if let Some(Line { carrier: Carrier::Windowed(windowed), .. }) = self.links.get(*link) {
                next = next.into_iter().chain(windowed.window.next_event()).min();
            }
        }
        next
    }

    /// The connection of a call is made.
    pub(crate) fn say_hello_lossy(&mut self, host: &str) {
        let Some(vi) = self.opening.take_made(host) else { return };
        post_datagrams(&vi, self.fixed.receives());
        let (lands, number, id) = (self.lands(), rt::random(), vi.id());
        let landing: Arc<dyn Landing> = lands.clone();
        let carrier = Carrier::Windowed(Box::new(Windowed::new(vi, number, landing)));
        let link = self.add_line_of(Line::new(host, &self.fixed, lands, carrier, true));
        self.set_place(id, Some(Place::Window(link)));
        let hello = self.hello(number);
        let line = self.links.get(link).expect("just made");
        line.control(&hello);
        self.opening.set_link(host, link);
        self.pump(link);
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
        let (id, peer) = (vi.id(), vi.peer().to_owned());
        let landing: Arc<dyn Landing> = lands.clone();
        let carrier = Carrier::Windowed(Box::new(Windowed::new(vi, number, landing)));
        let link = self.add_line_of(Line::new(&peer, &self.fixed, lands, carrier, false));
        self.set_place(id, Some(Place::Window(link)));
        self.opening.expect_hello(link, self.fixed.nic.now());
        self.datagram(link, completion);
    }

    /// The hello of a stranger over a lossy fabric.
    pub(crate) fn greeted_lossy(
        &mut self,
        link: Key,
        hello: &crate::link::control::Hello,
    ) -> Result<(), &'static str> {
        if self.call_counts(hello) {
            if let Some(line) = self.links.get(link) {
                line.control(&Control::Crossed);
            }
            self.pump(link);
            return Ok(());
        }
        if self.links.get(link).is_none_or(|line| line.peer != hello.host) {
            return Err("a hello in another's name");
        }
        if let Err(links) = self.admit(&hello.host) {
            if let Some(line) = self.links.get(link) {
                line.control(&Control::Full { links });
                // It is closed when its time for a hello is over.
                line.parts = true;
            }
            self.pump(link);
            return Ok(());
        }
        self.replace(&hello.host);
        let answer = self.hello(hello.link);
        let line = self.links.get(link).ok_or("no link")?;
        line.peer.clone_from(&hello.host);
        line.incarnation = Some(hello.incarnation);
        line.control(&answer);
        self.hosts.insert(hello.host.clone(), link);
        self.pump(link);
        self.open_more();
        Ok(())
    }
}
