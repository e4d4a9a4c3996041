//! Running the sides of a case on one thread.

use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::check::Wrong;
use super::side::{Alarm, Side};
use super::{Case, Failure, Party, Profile, Role, meeting_of_threads};
use crate::rt;
use crate::sync::Mutex;
use crate::vi::Nic;

/// Runs the given sides of a case to their ends: both, or the one of this process.
///
/// # Errors
///
/// What the first side that failed has found wrong.
///
/// # Panics
///
/// If no side is given.
pub fn run(case: &Case, profile: &Profile, parties: Vec<Party>) -> Result<(), Failure> {
    let alarm = Alarm::default();
    let failure = |role, wrong: Wrong| wrong.into_failure(case.to_string(), role);
    let mut sides = Vec::new();
    for party in parties {
        let role = party.role;
        let side = Side::new(party, *case, profile, Rc::clone(&alarm));
        sides.push(side.map_err(|wrong| failure(role, wrong))?);
    }
    drive(case, &sides, &alarm).map_err(|(role, wrong)| failure(role, wrong))?;
    for side in sides.iter().filter(|side| matters(case, side)) {
        side.settled().map_err(|wrong| failure(side.role, wrong))?;
    }
    Ok(())
}

/// Runs the sides of a case on a thread each: the caller, with the first nic, on this
/// one.
///
/// # Errors
///
/// What the first side that failed has found wrong.
///
/// # Panics
///
/// If there is no thread to be had, or the other one panics.
pub fn run_on_threads(case: &Case, profile: &Profile, nics: [Nic; 2]) -> Result<(), Failure> {
    let [near, far] = nics;
    let [here, there] = meeting_of_threads();
    let caller = Party::new(near.clone(), far.host(), Role::Caller, here);
    let answerer = {
        let (case, profile, near) = (*case, profile.clone(), near.host().to_owned());
        rt::spawn("answerer", move || {
            run(&case, &profile, vec![Party::new(far, &near, Role::Answerer, there)])
        })
        .expect("a thread for the answerer")
    };
    drop(near);
    run(case, profile, vec![caller])?;
    answerer.join().expect("the answerer does not panic")
}

/// Plays all cases, several at a time, for most of the time of a case is waiting. Returns what failed.
///
/// # Panics
///
/// If there is no thread to be had, or `play` panics.
pub fn run_all(
    cases: Vec<Case>,
    play: impl Fn(&Case) -> Result<(), Failure> + Send + Sync + 'static,
) -> Vec<Failure> {
    let (left, play) = (Arc::new(Mutex::new(cases.into_iter())), Arc::new(play));
    let players = [(); AT_ONCE].map(|()| {
        let (left, play) = (Arc::clone(&left), Arc::clone(&play));
        let all = move || {
            let all = std::iter::from_fn(|| left.lock().next());
            all.filter_map(|case| play(&case).err()).collect::<Vec<_>>()
        };
        rt::spawn("player", all).expect("a thread for a player")
    });
    let failed = players.map(|player| player.join().unwrap_or_else(|panic| resume_unwind(panic)));
    failed.into_iter().flatten().collect()
}

/// How many cases [`run_all`] plays at a time.
const AT_ONCE: usize = 4;

/// Whether the outcome of a side counts: that of an answerer which is killed does not.
fn matters(case: &Case, side: &Side) -> bool {
    side.role == Role::Caller || !case.kills_answerer
}

/// Polls the scripts in turn, and lets the nic wait in between. Ends when all
/// that matter have ended, or one of them has failed.
fn drive(case: &Case, sides: &[Side], alarm: &Alarm) -> Result<(), (Role, Wrong)> {
    let nic = &sides.first().expect("at least one side").nic;
    // Alone in its process, an answerer that is to be killed runs until it is.
    let alone = !sides.iter().any(|side| matters(case, side));
    let mut context = Context::from_waker(Waker::noop());
    let mut scripts: Vec<_> = sides.iter().map(|side| (side, Some((case.script)(side)))).collect();
    loop {
        let seen = nic.poll();
        alarm.set(None);
        for (side, script) in &mut scripts {
            let Some(running) = script else { continue };
            if let Poll::Ready(outcome) = running.as_mut().poll(&mut context) {
                *script = None;
                if matters(case, side) {
                    outcome.map_err(|wrong| (side.role, wrong))?;
                }
            }
        }
        if !scripts.iter().any(|(side, script)| script.is_some() && (alone || matters(case, side)))
        {
            return Ok(());
        }
        nic.wait(seen, alarm.get());
    }
}
