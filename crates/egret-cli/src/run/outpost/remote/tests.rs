//! What the launcher makes of what outposts say, and do not say.

use std::process::Command;

use super::super::order::{OutpostHello, OutpostReport, PROTOCOL};
use super::*;
use crate::run::fault::caught;

/// An outpost with ranks 2 and 3, reached by a process that does nothing.
fn outposts(state: OutpostState) -> Outposts {
    let process = Command::new("sleep").arg("60").spawn().unwrap();
    let mut outpost = RemoteOutpost::new("beta", 2..4, process).unwrap();
    outpost.state = state;
    if state == OutpostState::Running {
        outpost.running = (2..4).collect();
    }
    let (inbox, transport) = (Inbox::new().unwrap(), Transport::of("ssh"));
    let (job, program, news) = ("job-1".to_owned(), None, Vec::new());
    Outposts { outposts: vec![outpost], inbox, transport, job, program, news }
}

fn end(mut outposts: Outposts) -> OutpostState {
    let outpost = &mut outposts.outposts[0];
    let _ = outpost.process.kill();
    let _ = outpost.process.wait();
    outpost.state
}

/// What is made of it if the outpost says this.
fn heard_of(state: OutpostState, said: Vec<OutpostSaid>) -> (Vec<OutpostNews>, OutpostState) {
    let mut outposts = outposts(state);
    said.into_iter().for_each(|said| outposts.inbox.put((0, said)));
    let news = outposts.news();
    (news, end(outposts))
}

fn heard(said: Vec<OutpostSaid>) -> (Vec<OutpostNews>, OutpostState) {
    heard_of(OutpostState::Running, said)
}

fn report(ended: &[(u32, Status)]) -> OutpostSaid {
    OutpostSaid::Report(OutpostReport::Exited(ended.to_vec()))
}

fn hello(protocol: u32) -> OutpostSaid {
    let version = "9".to_owned();
    OutpostSaid::Report(OutpostReport::Hello(OutpostHello { protocol, version, launcher: None }))
}

fn lost() -> OutpostNews {
    OutpostNews::Exited(vec![(2, Status::Lost), (3, Status::Lost)])
}

/// What has failed before it started its processes, with this word in the reason.
#[track_caller]
fn failed(news: Option<&OutpostNews>, word: &str, status: Status) {
    let Some(OutpostNews::Failed(failed)) = news else { panic!("{news:?}") };
    assert!(failed.why.starts_with("host beta ") && failed.why.contains(word), "{}", failed.why);
    assert_eq!(failed.ended, [(2, status), (3, status)]);
}

/// Processes that run at an outpost are lost with it.
fn a_lost_outpost_loses_its_processes() {
    let (news, state) = heard(vec![OutpostSaid::Ends(None)]);
    assert_eq!((news.last(), state), (Some(&lost()), OutpostState::Lost), "{news:?}");
    let told = "host beta is lost: the connection with it has ended";
    assert_eq!(news.first(), Some(&OutpostNews::Tell(told.to_owned())));
    // It forgets rank 3.
    let alone = OutpostSaid::Report(OutpostReport::Alone);
    let (news, state) = heard(vec![report(&[(2, Status::Code(0))]), alone]);
    let rest = OutpostNews::Exited(vec![(3, Status::Lost)]);
    assert_eq!((news.last(), state), (Some(&rest), OutpostState::Lost));
}

/// An outpost reports its own processes, each once.
fn an_outpost_reports_its_own_processes() {
    let ended = [(0, Status::Code(1)), (3, Status::Code(0)), (7, Status::Signal(9))];
    let (news, _) = heard(vec![report(&ended), report(&[(3, Status::Code(5))])]);
    let own = OutpostNews::Exited(vec![(3, Status::Code(0))]);
    assert_eq!(news, [own, OutpostNews::Exited(Vec::new())]);
}

/// An outpost of which nothing is heard is lost.
fn silence_is_a_loss() {
    let mut outposts = outposts(OutpostState::Running);
    assert_eq!(outposts.news(), []);
    let news = outposts.news_at(rt::now() + LOST_AFTER + SAY_EVERY);
    end(outposts);
    assert_eq!(news.last(), Some(&lost()));
}

#[test]
fn what_an_outpost_says_or_does_not_say_is_believed_as_far_as_it_can_be_true() {
    a_lost_outpost_loses_its_processes();
    an_outpost_reports_its_own_processes();
    silence_is_a_loss();
}

/// An outpost that ends before its processes run has failed, whatever came before.
#[test]
fn an_outpost_that_starts_nothing_has_failed() {
    let started = || OutpostSaid::Report(OutpostReport::Started);
    for state in [OutpostState::Called, OutpostState::Reached, OutpostState::Beginning] {
        let (news, after) = heard_of(state, vec![OutpostSaid::Ends(None)]);
        failed(news.last(), "ended", Status::Lost);
        assert_eq!((news.len(), after), (1, OutpostState::Lost));
        // Behind that nothing it says is believed.
        let late = vec![OutpostSaid::Ends(None), hello(PROTOCOL), started()];
        assert_eq!(heard_of(state, late).0.len(), 1, "{state:?}");
    }
    let both = vec![hello(PROTOCOL), OutpostSaid::Ends(None)];
    let (news, after) = heard_of(OutpostState::Called, both);
    assert_eq!((news.first(), after), (Some(&OutpostNews::Reached(0)), OutpostState::Lost));
    failed(news.last(), "ended", Status::Lost);
    let (news, _) = heard_of(OutpostState::Called, vec![hello(PROTOCOL + 1)]);
    failed(news.last(), "install the same there", Status::Lost);
    let (news, _) = heard_of(OutpostState::Called, vec![started()]);
    failed(news.last(), "before its hello", Status::Lost);
    let refused = OutpostReport::Refused { why: "no heat".to_owned(), code: 127 };
    let (news, _) = heard_of(OutpostState::Beginning, vec![OutpostSaid::Report(refused)]);
    failed(news.last(), "starts nothing: no heat", Status::Code(127));
    let (news, after) = heard_of(OutpostState::Beginning, vec![started(), started()]);
    assert_eq!((news, after), (vec![OutpostNews::Started(0)], OutpostState::Running));
}

#[test]
fn an_outpost_that_falls_silent_before_it_starts_has_failed() {
    for state in [OutpostState::Reached, OutpostState::Beginning] {
        let mut outposts = outposts(state);
        let news = outposts.news_at(rt::now() + LOST_AFTER + SAY_EVERY);
        end(outposts);
        failed(news.last(), "nothing was heard of it", Status::Lost);
    }
    let mut called = outposts(OutpostState::Called);
    assert_eq!(called.news_at(rt::now() + LOST_AFTER + SAY_EVERY), [], "it may take longer");
    let news = called.news_at(rt::now() + CONNECT_WITHIN + SAY_EVERY);
    end(called);
    failed(news.last(), "did not answer", Status::Lost);
}

#[test]
fn planted_faults_are_caught() {
    assert!(caught(Fault::LossUntold, a_lost_outpost_loses_its_processes));
    assert!(caught(Fault::ForeignRanks, an_outpost_reports_its_own_processes));
    assert!(caught(Fault::SilenceForgiven, silence_is_a_loss));
}
