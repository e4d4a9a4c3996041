//! What must be so whatever the seed.

use std::time::Duration;

use egret_net::fabric::sim::{self, Sim};
use egret_net::rt::{self, GivenBack};

use super::town::{BYTES_MAX, Letter, Town, letter};
use crate::graph::{ANY, Graph, Graphs, RankGraphError, Sending, Source};

fn below(below: u64) -> u64 {
    rt::random() % below
}

fn any_rank() -> u32 {
    u32::try_from(below(3)).unwrap()
}

fn at(rank: u32) -> usize {
    rank as usize
}

/// Posts a letter, which arrives before it is received.
fn post(graphs: &mut Graphs<Letter>, from: u32, to: u32, number: u64) -> Sending<Letter> {
    graphs.set_current(letter(from, to, number, below(PAGES)));
    graphs.post_send_graph(to)
}

/// Posts a letter that may be so long that it arrives while it is received.
fn post_long(graphs: &mut Graphs<Letter>, from: u32, to: u32, number: u64) -> Sending<Letter> {
    graphs.set_current(letter(from, to, number, below(LONG_PAGES)));
    graphs.post_send_graph(to)
}

/// Why a letter was not sent; it is back.
fn back(
    not_sent: GivenBack<Option<Box<Graph<Letter>>>, RankGraphError>,
    number: u64,
) -> RankGraphError {
    let letter = not_sent.what.expect("it is given back");
    assert_eq!(letter.root().number, number);
    assert!(letter.iter::<Letter>().all(|(_, page)| page.number == number));
    not_sent.why
}

/// Three nodes write to each other; each letter arrives once, in order, and nobody asks for them
/// to be sent.
pub(super) fn letters_arrive(sim: &Sim) {
    let town = Town::new(sim, 3);
    let mut graphs: Vec<_> = (0..3).map(|rank| town.graphs(rank)).collect();
    let mut posted = [[0; 3]; 3];
    let mut read = [[0; 3]; 3];
    let mut sent = Vec::new();
    for _ in 0..30 {
        let (from, to) = (any_rank(), any_rank());
        let number = &mut posted[at(from)][at(to)];
        sent.push(post_long(&mut graphs[at(from)], from, to, *number));
        *number += 1;
        if below(3) == 0 {
            town.pass(Duration::from_micros(below(5_000)));
        }
    }
    for to in 0..3 {
        let mut take = |from: Source| {
            let letter = town.receive(&mut graphs[at(to)], from).unwrap();
            let next = &mut read[at(letter.from)][at(to)];
            assert_eq!((letter.number, letter.to), (*next, to));
            *next += 1;
        };
        // All of one, past the others, and then what is left.
        let (first, of) = (any_rank(), |from: u32| posted[at(from)][at(to)]);
        (0..of(first)).for_each(|_| take(first.into()));
        let left: u64 = (0..3).filter(|from| *from != first).map(of).sum();
        (0..left).for_each(|_| take(ANY));
        assert!(graphs[at(to)].try_recv_graph(ANY).unwrap().is_none());
    }
    sent.into_iter().for_each(|sent| town.run(sent).unwrap());
}

/// Either end drops its graphs and begins anew: what was sent before comes before.
pub(super) fn both_begin_anew(sim: &Sim) {
    let town = Town::new(sim, 2);
    let (mut here, mut there) = (town.graphs(0), town.graphs(1));
    for number in 0..6 {
        if number == 3 {
            drop(here);
            town.pass(Duration::from_millis(below(50)));
            here = town.graphs(0);
        }
        here.set_current(letter(0, 1, number, below(20)));
        town.run(here.post_send_graph(1)).unwrap();
    }
    town.pass(Duration::from_millis(50));
    for number in 0..6 {
        assert_eq!(town.receive(&mut there, ANY).unwrap().number, number);
    }
    drop(there);
    town.pass(Duration::from_millis(50));
    let why = back(town.run(post(&mut here, 0, 1, 6)).unwrap_err(), 6);
    assert_eq!(why, RankGraphError::Stopped { rank: 1 });
    let mut there = town.graphs(1);
    town.run(post(&mut here, 0, 1, 7)).unwrap();
    assert_eq!(town.receive(&mut there, 0).unwrap().number, 7);
}

/// A node dies: who waits for it is told, and the others go on.
pub(super) fn one_dies(sim: &Sim) {
    let town = Town::new(sim, 3);
    let mut graphs: Vec<_> = (0..3).map(|rank| town.graphs(rank)).collect();
    let has_sent = below(2) == 0;
    if has_sent {
        town.run(post(&mut graphs[1], 1, 0, 0)).unwrap();
    }
    let on_way = (below(2) == 0).then(|| post_long(&mut graphs[0], 0, 1, 9));
    if below(2) == 0 {
        town.pass(Duration::from_millis(below(20)));
    }
    sim.crash("n1");
    let mut received = 0;
    let why = loop {
        match town.receive(&mut graphs[0], 1) {
            Ok(_) => received += 1,
            Err(why) => break why,
        }
    };
    assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
    assert!(received <= u32::from(has_sent));
    if let Some(Err(not_sent)) = on_way.map(|sending| town.run(sending)) {
        let why = back(not_sent, 9);
        assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
    }
    let why = back(town.run(post(&mut graphs[0], 0, 1, 3)).unwrap_err(), 3);
    assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
    town.run(post(&mut graphs[2], 2, 0, 0)).unwrap();
    assert_eq!(town.receive(&mut graphs[0], ANY).unwrap().from, 2);
}

/// A link dies, and both nodes live: a receive for any rank waits for others, and one for that rank is
/// told all the same; what comes by the next link is received.
pub(super) fn a_link_dies(sim: &Sim) {
    let town = Town::new(sim, 2);
    let (mut here, mut there) = (town.graphs(0), town.graphs(1));
    town.run(post(&mut there, 1, 0, 0)).unwrap();
    assert_eq!(town.receive(&mut here, ANY).unwrap().number, 0);
    sim.partition(&["n0"], &["n1"]);
    let lost = town.run(post_long(&mut here, 0, 1, 1)).is_err();
    if below(2) == 0 {
        let mut any = here.post_recv_graph(ANY);
        town.pass(Duration::from_millis(50));
        assert!(any.try_received().is_none());
    }
    sim.heal();
    assert!(lost, "it went through a partition");
    let why = town.receive(&mut here, 1).unwrap_err();
    assert!(matches!(why, RankGraphError::Gone { rank: 1, .. }), "{why}");
    let mut number = 2;
    while town.run(post(&mut there, 1, 0, number)).is_err() {
        number += 1;
    }
    assert_eq!(town.receive(&mut here, 1).unwrap().number, number);
}

/// A node sends what is no letter, or too long: each is an error that names it.
pub(super) fn one_lies(sim: &Sim) {
    let town = Town::new(sim, 3);
    let (mut here, mut honest) = (town.graphs(0), town.graphs(1));
    let liar = town.nodes[2].route(town.nodes[0].id()).unwrap();
    let deadline = town.nodes[2].deadline();
    let channel = liar.links.channel(&liar.host, "Graph<Letter>", deadline);
    let mut channel = town.run(Box::pin(channel)).unwrap();
    for number in 0..6 {
        let (pages, len) = (BYTES_MAX / 32 + 1, usize::try_from(below(5_000)).unwrap());
        let segment = match number % 3 {
            0 => letter(2, 0, number, pages).into_segment(),
            // As if parts followed.
            1 => vec![BYTES_MAX + 1 + below(1 << 60)].into(),
            _ => vec![7_u8; len + 9].into(),
        };
        town.run(Box::pin(channel.send(segment))).unwrap();
        let why = town.receive(&mut here, 2).unwrap_err();
        match why {
            RankGraphError::TooLarge { rank: 0, most: BYTES_MAX, .. } => assert!(number % 3 < 2),
            RankGraphError::Refused { from: 2, .. } => assert_eq!(number % 3, 2),
            why => panic!("{why}"),
        }
        town.run(post(&mut honest, 1, 0, number)).unwrap();
        assert_eq!(town.receive(&mut here, 1).unwrap().number, number);
    }
}

#[test]
fn letters_arrive_once_and_in_order() {
    sim::check(0..rt::trials(60), letters_arrive);
}

#[test]
fn a_rank_may_begin_anew() {
    sim::check(0..rt::trials(60), both_begin_anew);
}

#[test]
fn receive_ends_when_the_awaited_node_dies() {
    sim::check(0..rt::trials(60), one_dies);
}

#[test]
fn receive_from_a_rank_ends_when_its_link_dies() {
    sim::check(0..rt::trials(60), a_link_dies);
}

#[test]
fn what_a_hostile_rank_sends_is_an_error_that_names_it() {
    sim::check(0..30, one_lies);
}

/// Most pages of a letter that goes in one part: 48 KB, three times what every channel may always
/// hold.
const PAGES: u64 = 1500;
/// Most pages of any letter.
const LONG_PAGES: u64 = 4000;
