//! What calls do when nothing goes wrong.

use egret::rmi::{CallError, Remoting};

use crate::grid::{Board, GridStub, SOON, Tree, Worse, pair, pool};

#[test]
fn every_kind_of_argument_arrives() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        let grid = &pair.grid;
        grid.ping().unwrap();
        for len in [0, 1, 3, 500, 512, 513, 20_000, 300_000] {
            let row: Vec<f64> = (0..len).map(f64::from).collect();
            grid.put_row(7, &row).unwrap();
            assert_eq!(grid.row(7).unwrap(), row, "{fabric}: {len}");
        }
        let tree = Tree::of_depth(10);
        assert_eq!(grid.sum_lent(&tree).unwrap(), 1023);
        assert_eq!(grid.sum(tree).unwrap(), 1023);
        assert_eq!(grid.greet("egret", 2).unwrap(), "hello egret, hello egret, ");
        assert_eq!(grid.greet("x", 255).unwrap().len(), 255 * 9);
        let wide: Vec<u128> = (0..1000).collect();
        assert_eq!(grid.wide(1, &wide[..3]).unwrap(), 4);
        assert_eq!(grid.wide(1, &wide).unwrap(), 499_501);
        assert_eq!(grid.best(5), Ok(0));
        assert_eq!(grid.best(9), Ok(5));
        assert_eq!(grid.best(7), Err(CallError::Failed(Worse { best: 9 })));
    }
}

#[test]
fn a_oneway_call_runs() {
    let pair = pair("shm");
    (0..1000).for_each(|_| pair.grid.hint(1).unwrap());
    let until = egret::rt::now() + std::time::Duration::from_secs(20);
    while pair.grid.hints().unwrap() < 1000 && egret::rt::now() < until {}
    assert_eq!(pair.grid.hints().unwrap(), 1000);
}

#[test]
fn calls_begun_together_are_answered_each() {
    for fabric in ["shm", "tcp"] {
        let pair = pair(fabric);
        let pending: Vec<_> =
            (0..50).map(|at| pair.grid.begin().greet("x".repeat(at), 1)).collect();
        for (at, pending) in pending.into_iter().enumerate() {
            assert_eq!(pending.wait().unwrap().len(), 8 + at);
        }
    }
}

#[test]
fn an_object_of_ones_own_node_is_called_the_same_way() {
    let (_registry, nodes) = pool(1, "shm");
    let exported = nodes[0].export(Board::default()).unwrap();
    exported.bind("here").unwrap();
    let grid: GridStub = nodes[0].lookup("here", SOON).unwrap();
    grid.ping().unwrap();
    grid.put_row(1, &[1.0; 5000]).unwrap();
    assert_eq!(grid.row(1).unwrap(), [1.0; 5000]);
    assert_eq!(grid.best(0), Err(CallError::Failed(Worse { best: 0 })));
    assert_eq!(grid.begin().sum(Tree::of_depth(3)).wait(), Ok(7));
    drop(exported);
    assert!(matches!(grid.ping(), Err(CallError::UnknownObject { .. })));
}
