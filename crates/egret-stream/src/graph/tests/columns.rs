//! Many objects of a class are looked at by columns: what is found is what one by one finds.

use crate::graph::check::{self, Check};
use crate::graph::class::Classes;
use crate::graph::head::Head;
use crate::graph::{Graph, Object, Ref};

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Tree {
    number: u64,
    children: [Option<Ref<Self>>; 2],
    leaf: Ref<Leaf>,
}

#[derive(Clone, Copy, Object)]
#[repr(C)]
struct Leaf {
    tree: Option<Ref<Tree>>,
    is_green: bool,
    _reserved: [u8; 7],
}

fn grow(graph: &mut Graph<Tree>, depth: u64) -> Ref<Tree> {
    let children = [(); 2].map(|()| (depth > 1).then(|| grow(graph, depth - 1)));
    let leaf = graph.insert(Leaf { tree: children[0], is_green: true, _reserved: [0; 7] });
    graph.insert(Tree { number: depth, children, leaf })
}

/// What is found of each class by columns, and one by one.
fn verdicts(words: &[u64]) -> Option<[[Result<u32, String>; 2]; 2]> {
    let head = Head::read(Classes::of::<Tree>(), bytemuck::cast_slice(words)).ok()?;
    let look = |class: usize| {
        let mut check = Check { words, arenas: &head.arenas };
        let found = (head.arenas[class].class.check)(&mut check, class);
        let slots = bytemuck::cast_slice(&words[head.arenas[class].slots.words()]);
        let singly = match class {
            0 => check::each::<Tree>(&mut check, class, slots),
            _ => check::each::<Leaf>(&mut check, class, slots),
        };
        [found, singly].map(|found| found.map_err(|refusal| refusal.to_string()))
    };
    Some([look(0), look(1)])
}

#[test]
fn columns_find_what_one_by_one_finds() {
    let mut graph = Graph::build(|graph| grow(graph, 8));
    let [gone, ..] = graph.refs::<Leaf>().collect::<Vec<_>>()[..] else { panic!("no leaf") };
    for is_whole in [true, false] {
        let words: Vec<u64> =
            graph.to_vec().as_chunks().0.iter().map(|w| u64::from_le_bytes(*w)).collect();
        let mut refused = 0;
        for at in 0..words.len() {
            let one = words[at];
            for wrong in [one, 0, u64::MAX, one ^ 1, one ^ 1 << 40, one ^ 1 << 32, one ^ 1 << 56] {
                let mut words = words.clone();
                words[at] = wrong;
                let Some(verdicts) = verdicts(&words) else { continue };
                for [found, singly] in verdicts {
                    refused += usize::from(found.is_err());
                    assert_eq!(found, singly, "word {at} is {wrong:x}");
                }
            }
        }
        assert!(refused > words.len(), "{refused} of {} words", words.len());
        assert_eq!(graph.check().is_ok(), is_whole);
        graph.remove(gone);
    }
}
