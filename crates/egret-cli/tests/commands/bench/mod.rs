//! `egret bench` as its users run it.

mod crowds;
mod encrypted;
mod graph;
mod messages;
mod port;
mod rmi;

use std::process::{Command, Output};

use serde_json::Value;

const EGRET: &str = env!("CARGO_BIN_EXE_egret");

fn egret(args: &[&str]) -> Output {
    Command::new(EGRET).args(args).output().expect("egret starts")
}

fn stdout(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).expect("text")
}

fn lines(args: &[&str]) -> Vec<Value> {
    let output = egret(args);
    let parse = |line| serde_json::from_str(line).expect("one object a line");
    stdout(&output).lines().map(parse).collect()
}

/// The figure of this name, which must be there and make sense.
fn figure(line: &Value, name: &str) -> f64 {
    let figure = line[name].as_f64().unwrap_or_else(|| panic!("{name} in {line}"));
    assert!(figure.is_finite() && figure >= 0.0, "{name} in {line}");
    figure
}
