//! A node that has as much to do as it takes on.

use std::time::Duration;

use egret::rmi::__private::{calls_account, run_calls};
use egret::rmi::{CallError, Remoting};
use egret::rt;

use crate::grid::{Board, GridStub, LONG, pair, pair_with};

/// As many calls as one of two nodes lets wait of the other: what is anybody's, and a share.
const MOST: usize = 8192 + 4096;

#[test]
fn a_node_that_has_too_much_to_do_says_so_and_runs_what_it_has() {
    for fabric in ["shm", "tcp"] {
        let most = 2 * u32::try_from(MOST).unwrap();
        let pair = pair_with(fabric, |config| config.in_flight(most));
        let wide = pair.server.export(Board::default()).unwrap();
        let grid: GridStub = pair.client.stub(wide.object());
        grid.ping().unwrap();
        // Nobody runs what lines up.
        pair.server.set_workers(0);
        let waiting: Vec<_> = (0..MOST).map(|_| grid.begin().hints()).collect();
        let until = rt::now() + LONG;
        while calls_account(&pair.server).calls < MOST {
            assert!(rt::now() < until, "{:?}", calls_account(&pair.server));
            rt::sleep(Duration::from_millis(1));
        }
        assert!(matches!(grid.hints(), Err(CallError::Busy { .. })), "{fabric}");
        let said = grid.hints().unwrap_err().to_string();
        assert!(said.contains("8192 calls") && said.contains("fewer calls"), "{said}");
        assert!(matches!(grid.begin().best(1).wait(), Err(CallError::Busy { .. })));
        grid.hint(1).unwrap();
        grid.ping().unwrap();
        // Another object of the node: it is the node that is busy.
        assert!(matches!(pair.grid.hints(), Err(CallError::Busy { .. })));
        // Not for itself: it has a share as well.
        let own: GridStub = pair.server.stub(wide.object());
        let own = own.begin().hints();

        assert!(run_calls(&pair.server));
        assert_eq!(own.wait(), Ok(0));
        assert!(waiting.into_iter().all(|call| call.wait() == Ok(0)));
        assert_eq!(calls_account(&pair.server).calls, 0);
        pair.server.set_workers(1);
        assert_eq!(grid.hints(), Ok(0), "what was refused has not run");
        assert_eq!(grid.best(1), Ok(0));
    }
}

#[test]
fn with_fewer_workers_than_are_idle_a_call_still_runs() {
    let pair = pair("shm");
    pair.grid.ping().unwrap();
    for workers in [1, 3, 8, 2, 1] {
        pair.server.set_workers(8);
        let begin = |ms| (0..8).map(|_| pair.grid.begin().sleep_ms(ms)).collect::<Vec<_>>();
        assert!(begin(30).into_iter().all(|call| call.wait() == Ok(true)));
        // So that all of them are idle.
        rt::sleep(Duration::from_millis(50));
        pair.server.set_workers(workers);
        // Threads that are idle end by themselves, later.
        let soon = pair.grid.with_deadline(Duration::from_secs(6));
        assert_eq!(soon.hints(), Ok(0), "{workers} workers");
        assert!(begin(5).into_iter().all(|call| call.wait() == Ok(true)), "{workers} workers");
    }
}

#[test]
fn what_waits_for_workers_runs_as_soon_as_there_are_some() {
    let pair = pair("shm");
    pair.grid.ping().unwrap();
    pair.server.set_workers(0);
    let calls: Vec<_> = (0..5).map(|_| pair.grid.begin().hints()).collect();
    let until = rt::now() + LONG;
    while calls_account(&pair.server).calls < 5 {
        assert!(rt::now() < until, "{:?}", calls_account(&pair.server));
        rt::sleep(Duration::from_millis(1));
    }
    pair.server.set_workers(2);
    assert!(calls.into_iter().all(|call| call.wait() == Ok(0)));
}
