//! Histories of a graph and of a model in `Rc`s: after each step they are the same.

use egret_net::rt;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::graph::fuzzing::{History, Step, pool};

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = any::<(u8, u8, u8, u16)>();
    let step = step.prop_map(|(what, one, other, value)| Step { what, one, other, value });
    vec(step, 0..most)
}

fn live(history: &mut History, steps: &[Step]) {
    for step in steps {
        history.take(*step);
        history.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_on_the_heap_is_what_its_model_is(steps in steps(80)) {
        live(&mut History::new(&pool(), false), &steps);
    }

    /// It begins in the smallest buffer, moves to larger ones, and to the heap.
    #[test]
    fn a_graph_in_a_pool_is_what_its_model_is(steps in steps(80)) {
        let pool = pool();
        live(&mut History::new(&pool, true), &steps);
        for bytes in [512, 8192, pool.largest()] {
            prop_assert_eq!(pool.available(bytes), pool.capacity(bytes), "all is given back");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_graph_goes_on_from_a_file(before in steps(40), after in steps(20)) {
        let path = std::env::temp_dir().join(format!("egret-graph-{:016x}", rt::random()));
        let mut history = History::new(&pool(), false);
        live(&mut history, &before);
        history.save_and_load(&path);
        std::fs::remove_file(&path).unwrap();
        history.check();
        live(&mut history, &after);
    }
}
