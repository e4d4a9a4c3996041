//! Active messages that two processes flood each other with: calls, messages that are not
//! answered, data. Those of each kind have numbers of their own.

use std::collections::VecDeque;

use egret_net::rt::{Deadline, SplitMix64};
use egret_node::am::{Call, CallReply, MEDIUM_MAX, Message, MessageError, RemoteEndpoint};
use egret_node::link::{Fate, LinkError};

use super::LONG;

pub(crate) const CALL: usize = 0;
pub(crate) const ONE_WAY: usize = 1;
pub(crate) const DATA: usize = 2;
pub(crate) const KINDS: usize = 3;

/// What floods an endpoint.
pub(crate) struct Flood {
    pub(crate) remote: RemoteEndpoint,
    /// Messages of each kind.
    pub(crate) sent: [u64; KINDS],
    /// Calls that are not known to be done.
    calls: VecDeque<(u64, Call)>,
    rng: SplitMix64,
    fault: Fault,
}

/// What is wrong with a flood, so that the other side has something to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A message is left out.
    Skip,
    /// A byte of a message is another.
    Tear,
    /// What comes is not noted.
    Deny,
}

impl Fault {
    const ALL: [Self; 4] = [Self::None, Self::Skip, Self::Tear, Self::Deny];

    /// The fault that is printed like this.
    pub(crate) fn of(name: &str) -> Self {
        Self::ALL.into_iter().find(|fault| format!("{fault:?}") == name).unwrap()
    }
}

impl Flood {
    pub(crate) const fn new(remote: RemoteEndpoint, seed: u64, fault: Fault) -> Self {
        let calls = VecDeque::new();
        Self { remote, sent: [0; KINDS], calls, rng: SplitMix64(seed), fault }
    }

    /// Sends one more message, when there is room.
    pub(crate) fn send(&mut self) -> Result<(), MessageError> {
        let kind = match self.rng.below(8) {
            0..3 => CALL,
            3..7 => ONE_WAY,
            _ => DATA,
        };
        let sent = self.sent[kind];
        let number = sent + u64::from(self.fault == Fault::Skip && sent > 20);
        let mut bytes: Vec<u8> =
            (0..len(kind, number) as u64).map(|at| pattern(number, at)).collect();
        if self.fault == Fault::Tear && sent > 20 {
            bytes.iter_mut().skip(5).take(1).for_each(|byte| *byte ^= 1);
        }
        let words = [number];
        let message = Message::to(u8::try_from(kind).expect("there are three")).words(&words);
        match kind {
            CALL => {
                let call = self.remote.wait_request(message.bytes(&bytes), Deadline::In(LONG))?;
                self.calls.push_back((number, call));
            }
            ONE_WAY => self.remote.wait_send(message.bytes(&bytes), Deadline::In(LONG))?,
            _ => self.remote.wait_send(message.data(bytes), Deadline::In(LONG))?,
        }
        self.sent[kind] += 1;
        Ok(())
    }

    /// Looks at the answers that are there. Answers come in the order of the calls.
    pub(crate) fn take_answers(&mut self) {
        while let Some((number, call)) = self.calls.front_mut()
            && let Some(Ok(reply)) = call.poll_reply()
        {
            assert_eq!(reply.words(), [*number * 3], "the answer of another");
            self.calls.pop_front();
        }
    }

    /// How many calls may have run or not, now that the peer is dead; `taken` are known to have
    /// run.
    pub(crate) fn end_calls(&mut self, taken: u64) -> u64 {
        let (mut unknown, mut failed) = (0, None);
        let answered = |number: u64, reply: &CallReply| {
            assert_eq!(reply.words(), [number * 3], "the answer of another");
            assert!(number < taken, "call {number} was answered, and {taken} were taken");
        };
        for (number, call) in std::mem::take(&mut self.calls) {
            match call.wait(Deadline::In(LONG)) {
                Ok(reply) => {
                    assert_eq!(failed, None, "call {number} was answered");
                    answered(number, &reply);
                }
                Err(MessageError::LinkLost { fate, why }) => {
                    assert!(matches!(why, LinkError::PeerDied { .. }), "{why}");
                    let runs = fate == Fate::NotDelivered && number < taken;
                    assert!(!runs, "call {number} was delivered after all");
                    unknown += u64::from(fate == Fate::Unknown);
                    failed = Some(number);
                }
                Err(why) => panic!("call {number}: {why}"),
            }
        }
        unknown
    }

    /// Calls that were answered before the end.
    pub(crate) fn answered(&self) -> u64 {
        self.sent[CALL] - self.calls.len() as u64
    }
}

/// Bytes of a message: none, some, or as many as can be.
pub(crate) fn len(kind: usize, number: u64) -> usize {
    let mut rng = SplitMix64(number * KINDS as u64 + kind as u64);
    match (kind, rng.below(4)) {
        (DATA, _) => rng.below(100_000),
        (_, 0 | 1) => rng.below(40),
        (_, 2) => rng.below(600),
        _ => rng.below(MEDIUM_MAX + 1),
    }
}

pub(crate) const fn pattern(number: u64, at: u64) -> u8 {
    (number ^ at ^ (at >> 8)).to_le_bytes()[0]
}
