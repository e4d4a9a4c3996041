//! What a process prints when a method panics.

use std::process::{Command, Stdio};

use egret::rmi::{CallError, Remoting};

use crate::grid::{Board, GridStub};

/// The process that the other tests start: a method panics in it.
#[test]
fn a_method_panics_here() {
    if std::env::var_os(PANICS).is_none() {
        return;
    }
    let pool = egret::local::pool(2).unwrap();
    let exported = pool[0].export(Board::default()).unwrap();
    let grid: GridStub = pool[1].stub(exported.object());
    let failed = grid.fail("design").unwrap_err();
    assert!(matches!(failed, CallError::Panicked { .. }), "{failed}");
}

/// What that process prints, with a value of `RUST_BACKTRACE` if there is one.
fn printed(backtrace: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "panics::a_method_panics_here", "--nocapture"]);
    command.env(PANICS, "1");
    command.env_remove("RUST_BACKTRACE").env_remove("RUST_LIB_BACKTRACE").stdout(Stdio::null());
    command.envs(backtrace.map(|value| ("RUST_BACKTRACE", value)));
    let ended = command.output().unwrap();
    let printed = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{printed}");
    printed
}

#[test]
fn a_panic_of_a_method_is_printed_once_with_a_short_backtrace() {
    let printed = printed(None);
    assert_eq!(printed.matches("panicked").count(), 1, "{printed}");
    let (first, trace) = printed.split_once('\n').unwrap();
    assert!(first.starts_with("method `Grid::fail` of object "), "{printed}");
    assert!(first.contains(" of node 0#") && first.contains("rmi/grid.rs:"), "{printed}");
    assert!(first.ends_with("it failed by design"), "{printed}");
    assert!(trace.contains("Board"), "the method is there: {printed}");
    for part in ["egret_node", "egret::rmi::object", "catch_unwind", "std::thread", "__rust_"] {
        assert!(!trace.contains(part), "{part}: {printed}");
    }
}

#[test]
fn a_backtrace_is_as_long_as_it_is_asked_for() {
    let printed_without = printed(Some("0"));
    assert_eq!(printed_without.lines().count(), 1, "{printed_without}");
    let printed_in_full = printed(Some("full"));
    assert!(printed_in_full.contains("egret::rmi"), "{printed_in_full}");
}

/// Set for that process.
const PANICS: &str = "EGRET_TEST_RMI_PANICS";
