//! `egret app`, which is a job of this very program.

use std::process::{Command, Output};

use crate::job::{EGRET, Job, code, text};

fn app(args: &[&str]) -> Output {
    let mut command = Command::new(EGRET);
    command.arg("app").args(args);
    Job::start_as(command).end()
}

#[test]
fn applications_run_as_jobs() {
    let output = app(&["sor", "-n", "2", "--tag-output", "--size", "64", "--iterations", "8"]);
    assert_eq!(code(&output), 0, "{output:?}");
    assert!(text(&output.stdout).starts_with("[0] "), "{output:?}");
    let output = app(&["pmm", "-n", "2", "--size", "64", "--variant", "vi-posted", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one object");
    assert!(said.is_object(), "{said}");
}

#[test]
fn the_help_lists_them() {
    let help = text(&app(&["--help"]).stdout);
    assert!(help.contains("  sor ") && help.contains("  pmm "), "{help}");
    let help = text(&app(&["sor", "--help"]).stdout);
    assert!(help.contains("as many as there are cores") && help.contains("--tag-output"), "{help}");
    assert!(help.contains("over-relaxation"), "{help}");
    assert_eq!(code(&app(&["no-such"])), 2);
    assert_eq!(code(&app(&["sor", "-n", "0"])), 2);
}

#[test]
fn an_application_under_run_is_part_of_that_job() {
    let mut command = Command::new(EGRET);
    command.args(["run", "-n", "2", EGRET, "app", "sor", "--size", "64", "--iterations", "8"]);
    let output = Job::start_as(command).end();
    assert_eq!(code(&output), 0, "{output:?}");
}
