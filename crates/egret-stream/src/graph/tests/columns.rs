//! Many objects of a class are looked at by columns: what is found is what one by one finds.

use crate::graph::fuzzing::even::{Leaf, tree, verdicts};

#[test]
fn columns_find_what_one_by_one_finds() {
    let mut graph = tree(8);
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
