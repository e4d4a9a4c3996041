//! The fuzzers' entrances, with seeded inputs.

use super::super::fuzzing::{questions, tidings};
use crate::links::tests::random::Random;
use crate::pool::NodeId;
use crate::pool::wire::{LogEntry, RegistryAnswer, RegistryQuestion};

impl Random {
    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }

    /// A frame, perhaps damaged.
    fn damaged(&mut self, mut frame: Vec<u8>) -> Vec<u8> {
        if self.next().is_multiple_of(4) && !frame.is_empty() {
            let at = usize::try_from(self.next() % frame.len() as u64).unwrap();
            frame[at] = self.byte();
            frame.truncate(usize::from(self.byte()));
        }
        frame
    }
}

fn ask(random: &mut Random) -> RegistryQuestion {
    let name = format!("{}", random.next() % 3);
    match random.next() % 12 {
        5 => RegistryQuestion::Enter { view: name },
        6 => RegistryQuestion::Exit { view: name },
        7 => RegistryQuestion::Signal {
            to: vec![NodeId { rank: 1, incarnation: 2 }],
            bytes: vec![1],
        },
        8 => RegistryQuestion::Suspect { node: NodeId { rank: 1, incarnation: 2 } },
        9 => RegistryQuestion::Names { prefix: String::new(), after: Some(name) },
        10 => RegistryQuestion::Free { name },
        11 if random.next().is_multiple_of(20) => RegistryQuestion::Terminate,
        0 => RegistryQuestion::Follow { next: random.next() % 4 },
        1 => RegistryQuestion::Bind {
            name,
            bytes: vec![1],
            replace: random.next().is_multiple_of(2),
        },
        2 => RegistryQuestion::Unbind { name, bytes: vec![1] },
        3 => RegistryQuestion::Lookup { name, wait_ms: random.next() % 3 * 1000 },
        _ => RegistryQuestion::Leave,
    }
}

#[test]
fn whatever_is_asked_every_question_has_one_answer() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut input = Vec::new();
        for _ in 0..60 {
            let ask = ask(&mut random).to_bytes();
            let piece = random.damaged(ask);
            input.extend([random.byte(), random.byte(), u8::try_from(piece.len()).unwrap()]);
            input.extend(piece);
        }
        questions(&input);
        let noise: Vec<u8> = (0..500).map(|_| random.byte()).collect();
        questions(&noise);
    }
}

#[test]
fn whatever_a_registry_tells_a_node_stays_sane() {
    for seed in 0..500 {
        let mut random = Random(seed);
        let mut input = Vec::new();
        for first in 1..40_u64 {
            let node =
                NodeId { rank: u32::from(random.byte() % 3), incarnation: random.next() % 5 };
            let entries = match random.next() % 3 {
                0 => vec![LogEntry::Left(node)],
                1 => vec![LogEntry::Died { node, why: "x".into() }],
                _ => Vec::new(),
            };
            let told =
                RegistryAnswer::Events { first: first - random.next() % 2, entries }.to_bytes();
            let piece = random.damaged(told);
            input.push(u8::try_from(piece.len()).unwrap());
            input.extend(piece);
        }
        tidings(&input);
    }
}
