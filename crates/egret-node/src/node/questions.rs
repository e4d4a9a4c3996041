//! The questions of a node to its registry that are under way.
//!
//! Each has a number. When the node has lost its link to the registry and has a new one, it asks all of them again, in
//! the order of their numbers; the registry carries out none of them twice.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use egret_net::sync::Mutex;

use crate::am::{Call, CallReply, LinkPeer, Message, MessageError, RemoteEndpoint};
use crate::link::{Fate, LinkError};
use crate::pool::wire::{ASK, RegistryQuestion, VERSION};
use crate::wakers::under;

/// A node's mappings to its registry, over one link.
#[derive(Debug)]
pub(super) struct RegistryDesk {
    /// Where the node asks what happened.
    pub(super) follows: RemoteEndpoint,
    /// Where it asks everything else.
    pub(super) asks: RemoteEndpoint,
}

/// The questions under way, and where they are asked.
#[derive(Debug, Default)]
pub(super) struct QuestionTable(Mutex<TableState>);

#[derive(Debug, Default)]
struct TableState {
    /// `None` while the node has no link to its registry.
    desk: Option<Arc<RegistryDesk>>,
    /// Whether questions are asked again over the next link.
    stays: bool,
    /// Whether there is no next link.
    is_closed: bool,
    last: u64,
    all: BTreeMap<u64, Question>,
}

#[derive(Debug)]
struct Question {
    bytes: Vec<u8>,
    call: Option<Call>,
    /// The answer, if it had come before the link was lost and was not taken yet.
    answer: Option<Result<CallReply, MessageError>>,
    /// Whether it need not be sent over the present link: it was, or its answer has come.
    is_sent: bool,
    /// Whether nobody waits for the answer.
    is_owed: bool,
}

impl QuestionTable {
    /// The node has a link to its registry.
    pub(super) fn open(&self, desk: Arc<RegistryDesk>, stays: bool) {
        under(|| {
            let mut table = self.0.lock();
            if table.is_closed {
                return;
            }
            (table.desk, table.stays) = (Some(desk), stays);
            table.send();
        });
    }

    /// The node has lost its link to the registry; returns whether it had one.
    pub(super) fn lose_desk(&self) -> bool {
        let desk = under(|| {
            let mut table = self.0.lock();
            table.all.values_mut().for_each(Question::lose_link);
            table.desk.take()
        });
        desk.is_some()
    }

    /// No question is asked again.
    pub(super) fn close(&self) {
        under(|| {
            let mut table = self.0.lock();
            (table.stays, table.is_closed) = (false, true);
            table.all.retain(|_, question| !question.is_owed);
            // Without a call no answer can come any more.
            table.all.retain(|_, question| question.call.is_some() || question.answer.is_some());
        });
    }

    /// The peer of the link to the registry, if there is one.
    pub(super) fn peer(&self) -> Option<LinkPeer> {
        self.0.lock().desk.as_ref().map(|desk| desk.asks.peer())
    }

    pub(super) fn desk(&self) -> Option<Arc<RegistryDesk>> {
        self.0.lock().desk.clone()
    }

    /// Asks a question; returns its number.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub(super) fn ask(&self, ask: &RegistryQuestion) -> Result<u64, MessageError> {
        under(|| {
            let mut table = self.0.lock();
            let number = table.add(ask, false);
            match table.send() {
                None if table.is_full_without(number) => {
                    table.all.remove(&number);
                    Err(MessageError::Full { window: QUESTIONS_MAX })
                }
                None => Ok(number),
                Some(why) => {
                    match table.all.get(&number).is_some_and(|question| question.is_sent) {
                        true => Ok(number),
                        false => {
                            table.all.remove(&number);
                            Err(why)
                        }
                    }
                }
            }
        })
    }

    /// Asks a question as soon as there is room for it, and discards the answer.
    pub(super) fn owe(&self, ask: &RegistryQuestion) {
        under(|| self.0.lock().add(ask, true));
        self.settle();
    }

    /// Whether answers that nobody waits for are outstanding in such a number that no further question is owed.
    pub(super) fn is_behind(&self) -> bool {
        self.0.lock().all.values().filter(|question| question.is_owed).count() >= OWED_MAX
    }

    /// Sends what waits for room, and removes what nobody waits for and is answered.
    pub(super) fn settle(&self) {
        under(|| {
            let mut table = self.0.lock();
            table.send();
            let stays = table.stays;
            table.all.retain(|_, question| {
                let is_kept = !question.is_owed || !question.is_sent;
                if !is_kept && question.answer.is_some() {
                    return false;
                }
                let Some(call) = question.call.as_mut().filter(|_| !is_kept) else {
                    return is_kept;
                };
                match call.take_reply() {
                    _ if !stays => false,
                    None => true,
                    // It is asked again over the next link.
                    Some(Err(why)) if is_of_lost_link(&why) => {
                        (question.call, question.is_sent) = (None, false);
                        true
                    }
                    Some(_) => false,
                }
            });
        });
    }

    /// Whether a call that has failed for this reason is asked again.
    fn is_asked_again(&self, why: &MessageError) -> bool {
        is_of_lost_link(why) && self.0.lock().stays
    }

    /// Removes a question: its answer has come, or nobody waits for it any more.
    pub(super) fn remove(&self, number: u64) {
        under(|| {
            let mut table = self.0.lock();
            table.all.remove(&number);
            table.send();
        });
    }

    /// Polls the call of a question. Without a call, as before the next link is there, this is pending, and the caller
    /// has itself woken by another.
    pub(super) fn poll(
        &self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Poll<Result<CallReply, MessageError>> {
        loop {
            let taken = under(|| {
                let mut table = self.0.lock();
                let stays = table.stays || table.desk.is_some();
                let is_here =
                    |it: &&mut Question| stays || it.call.is_some() || it.answer.is_some();
                let question = table.all.get_mut(&number).filter(is_here);
                question.map(|question| (question.answer.take(), question.call.take()))
            });
            let mut call = match taken {
                None => return Poll::Ready(Err(gone())),
                Some((Some(answer), _)) => return Poll::Ready(answer),
                Some((None, None)) => return Poll::Pending,
                Some((None, Some(call))) => call,
            };
            // Without the lock: handlers may run, and ask.
            match Pin::new(&mut call).poll(context) {
                Poll::Ready(Err(why)) if self.is_asked_again(&why) => {}
                Poll::Ready(reply) => return Poll::Ready(reply),
                Poll::Pending if self.put_back(number, call) => return Poll::Pending,
                Poll::Pending => {}
            }
        }
    }

    /// Puts the call of a question back, unless the question was asked again meanwhile.
    fn put_back(&self, number: u64, call: Call) -> bool {
        under(|| {
            let mut table = self.0.lock();
            match table.all.get_mut(&number).filter(|question| question.call.is_none()) {
                Some(question) => {
                    question.call = Some(call);
                    true
                }
                None => false,
            }
        })
    }
}

impl Question {
    /// The link is lost over which the question may have been asked. It is asked again, unless the answer has come.
    fn lose_link(&mut self) {
        if let Some(answer) = self.call.as_mut().and_then(Call::take_reply) {
            self.call = None;
            self.answer = Some(answer).filter(|it| !it.as_ref().is_err_and(is_of_lost_link));
        }
        self.is_sent = self.answer.is_some();
    }
}

impl TableState {
    /// Whether a question was not sent, and there is no room for it to wait.
    fn is_full_without(&self, number: u64) -> bool {
        let is_sent = self.all.get(&number).is_some_and(|question| question.is_sent);
        !is_sent && self.all.len() > QUESTIONS_MAX as usize
    }

    fn add(&mut self, ask: &RegistryQuestion, is_owed: bool) -> u64 {
        self.last += 1;
        let bytes = ask.to_bytes();
        let question = Question { bytes, call: None, answer: None, is_sent: false, is_owed };
        self.all.insert(self.last, question);
        self.last
    }

    /// Sends what was not sent over the present link, in order; returns why the first one cannot be sent.
    fn send(&mut self) -> Option<MessageError> {
        let desk = self.desk.as_ref()?;
        let floor = self.all.first_key_value().map_or(0, |(number, _)| *number);
        for (number, question) in self.all.iter_mut().filter(|(_, question)| !question.is_sent) {
            let words = [VERSION, *number, floor];
            let message = Message::to(ASK).words(&words).bytes(&question.bytes);
            match desk.asks.try_request(message) {
                Ok(call) => (question.call, question.is_sent) = (Some(call), true),
                // What becomes of it is known when the link is seen to have ended.
                Err(unsent) if self.stays && is_of_lost_link(&unsent.why) => return None,
                Err(unsent) => return Some(unsent.why),
            }
        }
        None
    }
}

/// Whether a message was not answered because its link has ended without a reason that a peer has sent.
pub(super) const fn is_of_lost_link(why: &MessageError) -> bool {
    let (MessageError::Link(why) | MessageError::NoLink(why) | MessageError::LinkLost { why, .. }) =
        why
    else {
        return false;
    };
    matches!(
        why,
        LinkError::PeerDied { .. }
            | LinkError::ClosedByPeer { .. }
            | LinkError::Failed { .. }
            | LinkError::Replaced { .. }
    )
}

fn gone() -> MessageError {
    MessageError::LinkLost { fate: Fate::Unknown, why: LinkError::Closed }
}

/// Questions whose answers nobody waits for, beyond which a node sends no report.
const OWED_MAX: usize = 64;
/// Questions that a program may have begun without waiting while the node has no link to its registry.
const QUESTIONS_MAX: u32 = 1024;
