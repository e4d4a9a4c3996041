//! What floods: eager messages of all sizes on both lanes, both ways, each known by its number.

use egret_net::fabric::Fabrics;
use egret_net::rt::{Deadline, SplitMix64};
use egret_net::vi::{
    Address, Drain, EAGER_MAX, Lane, Listener, Nic, NicOptions, Position, PostError, Vi, ViError,
    ViOptions,
};

use super::LONG;
use super::flow::{fill, pattern};
use super::notes::{Note, Notes};
use super::party::SERVICE;

/// One side, with all its connections.
pub(crate) struct Side {
    pub(crate) nic: Nic,
    pub(crate) drain: Drain,
    pub(crate) listener: Listener,
    pub(crate) floods: Vec<Flood>,
    pub(crate) rng: SplitMix64,
    clerk: Clerk,
    /// What the sink found, which must not panic itself.
    wrong: Option<String>,
}

/// One end of a connection.
pub(crate) struct Flood {
    pub(crate) vi: Vi,
    pub(crate) lanes: [Tally; 2],
}

/// The messages of one lane.
#[derive(Default)]
pub(crate) struct Tally {
    /// Where each message of this side ends.
    pub(crate) sent: Vec<Position>,
    /// Messages of the peer's that were drained.
    pub(crate) drained: u64,
}

/// Who notes what a side does, and may be told to do it wrong.
pub(crate) struct Clerk {
    pub(crate) notes: Option<Notes>,
    pub(crate) fault: Fault,
}

/// What is wrong with a side, so that the other one has something to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A message is left out.
    Skip,
    /// A byte of a message is another.
    Tear,
    /// More is noted as sent than was.
    Boast,
    /// What is drained is not noted.
    Hide,
}

impl Fault {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::Skip, Self::Tear, Self::Boast, Self::Hide];

    /// The fault that is printed like this.
    pub(crate) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|fault| format!("{fault:?}") == name).unwrap()
    }
}

impl Side {
    pub(crate) fn new(fabric: &str, host: &str, seed: u64, clerk: Clerk) -> Self {
        let options = NicOptions::new(host).secret(super::SECRET.into());
        let nic = Fabrics::default().open(fabric, options).unwrap();
        let drain = nic.drain();
        let listener = nic.listen(SERVICE, 0, &sharing(&drain)).unwrap();
        Self { nic, drain, listener, floods: Vec::new(), rng: SplitMix64(seed), clerk, wrong: None }
    }

    pub(crate) fn connect(&mut self, host: &str) {
        let (to, options) = (Address::new(host, SERVICE, 0), sharing(&self.drain));
        let vi = self.nic.wait_connect(&to, &options, Deadline::In(LONG)).unwrap();
        self.add(vi);
    }

    pub(crate) fn add(&mut self, vi: Vi) {
        self.floods.push(Flood { vi, lanes: Default::default() });
    }

    /// Drains some and sends some on each connection. How many messages that were.
    pub(crate) fn turn(&mut self) -> Result<usize, ViError> {
        let mut moved = self.drain();
        for (connection, flood) in self.floods.iter_mut().enumerate() {
            for _ in 0..1 + self.rng.below(16) {
                let lane = Lane::ALL[self.rng.below(2)];
                let send = |tag, parts: &[&[u8]]| flood.vi.send_eager(lane, tag, parts);
                let tally = &mut flood.lanes[lane as usize];
                moved += usize::from(self.clerk.send(tally, connection, lane, send)?);
            }
            if self.rng.below(16) == 0 {
                let _ = Lane::ALL.map(|lane| flood.vi.arrived(lane));
            }
        }
        Ok(moved)
    }

    /// Drains some, and answers some of it from inside the drain.
    ///
    /// # Panics
    ///
    /// If a message is not the one that is due.
    pub(crate) fn drain(&mut self) -> usize {
        let Self { drain, floods, rng, clerk, wrong, .. } = self;
        let drained = drain.poll(64, |reply, tag, bytes| {
            let mut known = floods.iter_mut().enumerate();
            let Some((connection, flood)) = known.find(|(_, flood)| flood.vi.id() == reply.vi())
            else {
                wrong.get_or_insert("a message of no connection".to_owned());
                return;
            };
            let (lane, number) = (Lane::ALL[usize::from(tag & 1 == 1)], tag >> 1);
            let tally = &mut flood.lanes[lane as usize];
            if let Err(why) = check(tally.drained, number, tag, bytes) {
                wrong.get_or_insert(why);
            }
            tally.drained += 1;
            clerk.note(connection, lane, Note::Drained, tally.drained);
            if rng.below(8) == 0 {
                let send = |tag, parts: &[&[u8]]| reply.send(lane, tag, parts);
                // Refused if the peer is gone, which others find.
                let _ = clerk.send(tally, connection, lane, send);
            }
        });
        if let Some(wrong) = wrong {
            panic!("{wrong}");
        }
        drained
    }
}

impl Clerk {
    /// Notes nothing, and does nothing wrong.
    pub(crate) const fn idle() -> Self {
        Self { notes: None, fault: Fault::None }
    }

    /// Sends the next message of a lane, by `send`. Whether there was room.
    fn send(
        &self,
        tally: &mut Tally,
        connection: usize,
        lane: Lane,
        send: impl FnOnce(u64, &[&[u8]]) -> Result<Position, PostError>,
    ) -> Result<bool, ViError> {
        let number = tally.sent.len() as u64;
        let skipped = u64::from(self.fault == Fault::Skip && number > 20);
        let tag = (number + skipped) << 1 | lane as u64;
        let mut bytes = [0; EAGER_MAX];
        let bytes = &mut bytes[..len(tag)];
        fill(bytes, tag);
        if self.fault == Fault::Tear && number > 20 {
            bytes.iter_mut().skip(5).take(1).for_each(|byte| *byte ^= 1);
        }
        let (first, second) = bytes.split_at(bytes.len() / 3);
        match send(tag, &[first, second]) {
            Ok(position) => tally.sent.push(position),
            Err(PostError::LaneFull) => return Ok(false),
            Err(PostError::Broken(why)) => return Err(why),
            Err(why) => panic!("{why}"),
        }
        let boasted = u64::from(self.fault == Fault::Boast) * BOASTED;
        self.note(connection, lane, Note::Sent, number + 1 + boasted);
        Ok(true)
    }

    fn note(&self, connection: usize, lane: Lane, note: Note, count: u64) {
        let hidden = self.fault == Fault::Hide && matches!(note, Note::Drained);
        if let (Some(notes), false) = (&self.notes, hidden) {
            notes.write(connection, lane, note, count);
        }
    }
}

/// Whether a message is the next one of its lane, and whole.
fn check(due: u64, number: u64, tag: u64, bytes: &[u8]) -> Result<(), String> {
    if number != due {
        return Err(format!("message {number} is not in order: {due} is due"));
    }
    let right = (0..).zip(bytes).all(|(at, byte)| *byte == pattern(tag, at));
    match right && bytes.len() == len(tag) {
        true => Ok(()),
        false => Err(format!("message {number} of {} bytes is not whole", bytes.len())),
    }
}

/// Bytes of the message with this tag: one line, some, or as many as can be.
fn len(tag: u64) -> usize {
    let mut rng = SplitMix64(tag);
    match rng.below(4) {
        0 | 1 => rng.below(49),
        2 => rng.below(600),
        _ => rng.below(EAGER_MAX + 1),
    }
}

fn sharing(drain: &Drain) -> ViOptions {
    ViOptions { drain: Some(drain.clone()), ..ViOptions::default() }
}

/// More than a lane holds.
const BOASTED: u64 = 2000;
