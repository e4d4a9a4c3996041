//! Calls that were begun.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::rt::{self, Deadline, Instant};
use egret_node::am::{Call, Reply, SendError, in_handler};
use egret_stream::{FromWire, Wire};

use super::args::Args;
use super::callee::{Callee, End, Meeting};
use super::clock::{Alarm, Clock};
use super::fault::{Fault, planted};
use super::objects::CALL;
use super::pair::Connected;
use super::served::Answer;
use super::spot::Spot;
use super::stub::{Outgoing, read};
use super::trouble::PATIENCE;
use super::words::{Head, To, WORDS_MAX};
use super::{CallError, Never};

/// A call that was begun: a future, or to be waited for. Dropped, the call is cancelled: if
/// it has not begun to run it never will, and if it runs it can
/// [see](super::Current::is_cancelled) that nobody wants its answer.
///
/// It is sent at once if its stub is connected and there is room for one more call under way;
/// else when it is polled or waited for.
#[must_use = "dropped, the call is cancelled"]
pub struct Pending<T, E = Never> {
    begun: Begun,
    types: PhantomData<fn() -> (T, E)>,
}

/// A call that was begun, whatever its types.
struct Begun {
    callee: Callee,
    method: usize,
    /// Where it goes is known when it is sent.
    head: Head,
    started: Instant,
    until: Option<Instant>,
    /// Whether it is over only when it is answered.
    is_answered: bool,
    state: State,
    alarm: Option<Alarm>,
    /// Looks again where nobody tells that there is something to see.
    glance: Option<Alarm>,
}

enum State {
    Unsent(Args, Option<Meeting>),
    Sent(Call, Arc<Connected>),
    Here(Arc<Spot>),
    Failed(CallError),
    Over,
}

/// What came of a call.
enum Came {
    Reply(Reply),
    Answer(Answer),
    Sent,
}

impl<T, E> Pending<T, E> {
    pub(crate) fn new<A: Wire>(
        callee: &Callee,
        deadline: Deadline,
        method: usize,
        args: A,
        is_answered: bool,
    ) -> Self {
        let inherited = Outgoing::new(callee, deadline).inherited;
        let (deadline, started) = (inherited.deadline, rt::now());
        let state = match Args::give(args) {
            Ok(args) => match callee.check_size(args.len()) {
                Ok(()) => State::Unsent(args, None),
                Err(why) => State::Failed(why),
            },
            Err(why) => State::Failed(why),
        };
        let (to, number) = (To::UNKNOWN, callee.pair.exchange.next_call());
        let head = Head { to, deadline, chain: inherited.chain, number, within: inherited.within };
        let (callee, until) = (callee.clone(), deadline.until_from(started));
        let (alarm, glance) = (None, None);
        let mut begun =
            Begun { callee, method, head, started, until, is_answered, state, alarm, glance };
        // It goes as far as it can now, and on when it is polled or waited for.
        begun.send_now(&mut Context::from_waker(Waker::noop()));
        Self { begun, types: PhantomData }
    }
}

impl<T: for<'a> FromWire<'a>, E: for<'a> FromWire<'a>> Pending<T, E> {
    /// Waits for the answer. In a method that is declared non-blocking it gives an answer
    /// that has come, and does not wait for another.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn wait(mut self) -> Result<T, CallError<E>> {
        let came = self.begun.wait().map_err(CallError::widen)?;
        came.read(self.begun.terms())
    }
}

impl<T: for<'a> FromWire<'a>, E: for<'a> FromWire<'a>> Future for Pending<T, E> {
    type Output = Result<T, CallError<E>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(came) = self.begun.poll(context) else { return Poll::Pending };
        let terms = self.begun.terms();
        Poll::Ready(came.map_err(CallError::widen).and_then(|came| came.read(terms)))
    }
}

impl Came {
    fn read<T, E>(self, terms: (Deadline, &Callee)) -> Result<T, CallError<E>>
    where
        T: for<'a> FromWire<'a>,
        E: for<'a> FromWire<'a>,
    {
        match self {
            Self::Reply(reply) => read(reply.words(), reply.bytes(), terms),
            Self::Answer(answer) => {
                let words = answer.words().to_vec();
                read(&words, &answer.into_bytes(), terms)
            }
            Self::Sent => read(&[], &[], terms),
        }
    }
}

impl Begun {
    /// Within what its answer is read.
    const fn terms(&self) -> (Deadline, &Callee) {
        (self.head.deadline, &self.callee)
    }

    /// Sends it, if it is not, as far as that goes now.
    fn send(&mut self, context: &mut Context<'_>) {
        if let State::Unsent(..) = &self.state {
            self.head.deadline = self.left();
            self.send_now(context);
        }
    }

    /// The same, for as long as its head says.
    fn send_now(&mut self, context: &mut Context<'_>) {
        let State::Unsent(_, meeting) = &mut self.state else { return };
        let end = match self.callee.poll_end(meeting, context) {
            Poll::Ready(Ok(end)) => end,
            Poll::Ready(Err(why)) => return self.state = State::Failed(why),
            Poll::Pending => return self.look_again(context),
        };
        self.head.to = self.callee.to(self.method);
        match end {
            End::There(there) => self.send_there(there, context),
            End::Here => self.send_here(),
        }
    }

    fn send_there(&mut self, there: Arc<Connected>, context: &mut Context<'_>) {
        let mut words = [0; WORDS_MAX];
        let count = self.head.write(&mut words);
        loop {
            let State::Unsent(args, _) = &mut self.state else { return };
            let sent = args.send(CALL, &words[..count], |message| {
                there
                    .calls
                    .try_request(message)
                    .map_err(|unsent| (unsent.reason, Some(unsent.message.into_segments())))
            });
            match sent {
                Ok(call) => return self.sent(call, there),
                Err(SendError::Full { .. }) => match there.calls.poll_room(context) {
                    Poll::Ready(_) => {}
                    Poll::Pending => return,
                },
                Err(why) => {
                    let why = self.callee.pair.failed(&there, why.into(), Duration::ZERO);
                    return self.state = State::Failed(why);
                }
            }
        }
    }

    fn sent(&mut self, call: Call, there: Arc<Connected>) {
        self.state = if self.is_answered { State::Sent(call, there) } else { State::Over };
    }

    fn send_here(&mut self) {
        let State::Unsent(args, _) = &self.state else { return };
        let object = match self.callee.find(self.head.to) {
            Ok(found) => found,
            Err(why) => return self.state = State::Failed(why),
        };
        let spot = object.begin_here(&self.head, args.aligned());
        self.state = if self.is_answered { State::Here(spot) } else { State::Over };
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Came, CallError>> {
        self.send(context);
        let came = match &mut self.state {
            State::Unsent(..) => Poll::Pending,
            State::Sent(call, there) => {
                let there = Arc::clone(there);
                Pin::new(call).poll(context).map(|reply| {
                    let pair = &self.callee.pair;
                    let failed = |error| pair.failed(&there, error, Duration::ZERO);
                    reply.map(Came::Reply).map_err(failed)
                })
            }
            State::Here(spot) => spot.poll(context).map(|answer| Ok(Came::Answer(answer))),
            State::Failed(_) | State::Over => Poll::Ready(self.ended()),
        };
        if came.is_ready() {
            self.state = State::Over;
            (self.alarm, self.glance) = (None, None);
            return came;
        }
        self.poll_deadline(context)
    }

    fn poll_deadline(&mut self, context: &Context<'_>) -> Poll<Result<Came, CallError>> {
        let Some(until) = self.until else { return Poll::Pending };
        let now = rt::now();
        if now >= until {
            let is_sent = !matches!(self.state, State::Unsent(..));
            let may_have_run = is_sent && !planted(Fault::SaidNotRun);
            self.cancel();
            let waited = now - self.started;
            return Poll::Ready(Err(CallError::Deadline { waited, may_have_run }));
        }
        match &self.alarm {
            Some(alarm) => alarm.wakes(context.waker()),
            None => self.alarm = Some(self.clock().set(until, context.waker())),
        }
        Poll::Pending
    }

    fn wait(&mut self) -> Result<Came, CallError> {
        let callee = self.callee.clone();
        let mut outgoing = Outgoing::new(&callee, self.head.deadline);
        outgoing.inherited.chain = self.head.chain;
        if outgoing.inherited.is_inline || in_handler() {
            return self.wait_in_handler();
        }
        if let State::Unsent(..) = self.state {
            self.wait_sent(&outgoing)?;
        }
        match std::mem::replace(&mut self.state, State::Over) {
            State::Sent(mut call, there) => {
                // Of many that are under way several are answered at once: for those nobody
                // need ask the time.
                let reply = call.poll_reply().unwrap_or_else(|| {
                    let left = self.left();
                    outgoing.away(|| call.wait(left))
                });
                let failed = |error| callee.pair.failed(&there, error, PATIENCE);
                reply.map(Came::Reply).map_err(failed)
            }
            State::Here(spot) => {
                let workers = &callee.pair.exchange.workers;
                let answer = outgoing.away(|| spot.wait(self.until, workers));
                answer.map(Came::Answer).ok_or_else(|| {
                    self.state = State::Here(spot);
                    self.cancel();
                    CallError::Deadline { waited: rt::now() - self.started, may_have_run: true }
                })
            }
            other => {
                self.state = other;
                self.ended()
            }
        }
    }

    /// What is known without waiting. What has not been sent is not sent either.
    fn wait_in_handler(&mut self) -> Result<Came, CallError> {
        if let State::Unsent(..) = self.state {
            return Err(CallError::IN_HANDLER);
        }
        match self.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(came) => came,
            Poll::Pending => Err(CallError::InHandler { may_have_run: true }),
        }
    }

    fn wait_sent(&mut self, outgoing: &Outgoing<'_>) -> Result<(), CallError> {
        let end = match self.callee.end() {
            Some(end) => end,
            None => outgoing.away(|| self.callee.wait_end(self.left()))?,
        };
        let left = self.left();
        (self.head.to, self.head.deadline) = (self.callee.to(self.method), left);
        let there = match end {
            End::There(there) => there,
            End::Here => {
                self.send_here();
                return Ok(());
            }
        };
        let mut words = [0; WORDS_MAX];
        let count = self.head.write(&mut words);
        let State::Unsent(args, _) = &mut self.state else { return Ok(()) };
        let sent = args.send(CALL, &words[..count], |message| {
            let sent = outgoing.away(|| there.calls.wait_request(message, left));
            sent.map_err(|why| (why, None))
        });
        match sent {
            Ok(call) => self.sent(call, there),
            Err(why) => return Err(self.callee.pair.failed(&there, why.into(), PATIENCE)),
        }
        Ok(())
    }

    fn ended(&mut self) -> Result<Came, CallError> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Failed(why) => Err(why),
            _ if self.is_answered => panic!("a call was polled after it was over"),
            _ => Ok(Came::Sent),
        }
    }

    fn left(&self) -> Deadline {
        self.until.map_or(Deadline::UntilDead, |until| Deadline::In(until.since(rt::now())))
    }

    fn look_again(&mut self, context: &Context<'_>) {
        let at = rt::now() + GLANCE;
        self.glance = Some(self.clock().set(at, context.waker()));
    }

    fn clock(&self) -> &Arc<Clock> {
        &self.callee.pair.exchange.clock
    }

    fn cancel(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Sent(call, there) => {
                there.cancel(self.head.number);
                drop(call);
            }
            State::Here(_) => {
                self.callee.pair.exchange.objects.calls.cancel(None, self.head.number);
            }
            State::Unsent(..) | State::Failed(_) | State::Over => {}
        }
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<T, E> fmt::Debug for Pending<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("callee", &self.begun.callee).finish_non_exhaustive()
    }
}

/// How often is looked where nobody tells.
const GLANCE: Duration = Duration::from_millis(5);
