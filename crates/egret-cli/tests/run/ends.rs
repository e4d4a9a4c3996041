//! How jobs end, and what their exit codes say.

use std::process::Command;

use crate::job::{EGRET, Job, code, run, text};

#[test]
fn a_job_of_any_program_runs() {
    let output = run(&["-n", "2", "echo", "hello", "-n"]);
    assert_eq!((code(&output), text(&output.stdout).as_str()), (0, "hello -n\nhello -n\n"));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_first_failure_ends_all_and_gives_its_code() {
    let script = "[ $EGRET_RANK = 1 ] && exit 3; sleep 1000";
    let output = run(&["-n", "4", "--grace", "0", "sh", "-c", script]);
    let said = "egret: rank 1 exited with code 3; ending the other 3\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (3, said));
    let output = run(&["-n", "4", "--grace", "0.1", "sh", "-c", script]);
    let said = "egret: rank 1 exited with code 3; the other 3 have 100ms to finish\n\
                egret: 3 processes have not finished in 100ms; ending them\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (3, said));
}

/// They learn of it, say so and end; TERM would keep them from it.
#[test]
fn survivors_finish_by_themselves() {
    // A number is gone when the launcher has seen the end of its process.
    let script = "[ $EGRET_RANK = 1 ] && { echo $$ > new; mv new pid; exit 3; }; \
                  until [ -e pid ]; do sleep 0.01; done; \
                  while kill -0 $(cat pid) 2> /dev/null; do sleep 0.01; done; \
                  sleep 0.2; echo 1 is gone; exit 4";
    let folder = Folder::new();
    let args = ["-n", "3", "--grace", "30", "sh", "-c", script];
    let output = Job::start_as(folder.egret(&args)).end();
    assert_eq!(text(&output.stdout), "1 is gone\n1 is gone\n", "{output:?}");
    let said = "egret: rank 1 exited with code 3; the other 2 have 30s to finish\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (3, said));
}

/// Two die, one after the other; the others go on, and the end of the job says who died and how.
#[test]
fn survivors_of_a_job_that_goes_on_come_to_their_end() {
    // A number is gone when the launcher has seen the end of its process.
    let script = "dies() { echo $$ > new; mv new $1; }; \
                  gone() { until [ -e $1 ]; do sleep 0.01; done; \
                           while kill -0 $(cat $1) 2> /dev/null; do sleep 0.01; done; }; \
                  [ $EGRET_RANK = 1 ] && { dies one; kill -KILL $$; }; gone one; \
                  [ $EGRET_RANK = 2 ] && { dies two; exit 3; }; gone two; echo done";
    let folder = Folder::new();
    let args = ["-n", "4", "--on-death", "go-on", "--grace", "0", "sh", "-c", script];
    let output = Job::start_as(folder.egret(&args)).end();
    assert_eq!(text(&output.stdout), "done\ndone\n", "{output:?}");
    let said = "egret: rank 1 was ended by signal 9 (KILL); the other 3 go on\n\
                egret: rank 2 exited with code 3; the other 2 go on\n\
                egret: 2 of 4 processes failed: rank 1 was ended by signal 9 (KILL), \
                rank 2 exited with code 3\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (137, said));
}

#[test]
fn a_signal_is_reported_and_stubborn_processes_are_killed() {
    let script = "trap '' TERM INT HUP; [ $EGRET_RANK = 0 ] && kill -SEGV $$; \
                  sleep 1000 & sleep 1000";
    let output = run(&["-n", "3", "--grace", "0", "sh", "-c", script]);
    let said = "egret: rank 0 was ended by signal 11 (SEGV); ending the other 2\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (139, said));
}

#[test]
fn processes_are_asked_to_end() {
    let script = "[ $EGRET_RANK = 0 ] && { read go < gate; exit 9; }; \
                  trap 'echo bye; exit 0' TERM; echo > gate; while :; do sleep 0.01; done";
    let folder = Folder::new();
    let job = Job::start_as(folder.egret(&["-n", "2", "--grace", "0", "sh", "-c", script]));
    let output = job.end();
    assert_eq!((code(&output), text(&output.stdout).as_str()), (9, "bye\n"));
}

#[test]
fn time_is_limited() {
    let output = run(&["-n", "2", "--timeout", "0.3", "sh", "-c", "trap '' TERM; sleep 1000"]);
    let said = "egret: not done in 300ms; ending the job\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (124, said));
    let output = run(&["-n", "1", "--timeout", "1000", "sh", "-c", "exit 5"]);
    assert_eq!(code(&output), 5);
}

#[test]
fn what_is_no_program_is_refused_before_anything_starts() {
    let output = run(&["-n", "2", "no-such-program"]);
    let said = "egret: no `no-such-program` in the folders of PATH\n";
    assert_eq!((code(&output), text(&output.stderr).as_str()), (127, said));
    let output = run(&["-n", "2", "./Cargo.toml"]);
    assert_eq!(code(&output), 126, "{output:?}");
    assert!(text(&output.stderr).contains("chmod +x"), "{output:?}");
    assert_eq!(code(&run(&["-n", "2", "/"])), 126);
    // Looks like a program from outside.
    let folder = Folder::new();
    folder.script("odd", "#!/no/such/interpreter\n");
    let output = Job::start_as(folder.egret(&["-n", "1", "./odd"])).end();
    assert_eq!(code(&output), 127, "{output:?}");
    assert!(text(&output.stderr).contains("starting `./odd`"), "{output:?}");
}

#[test]
fn usage_is_2_and_the_help_teaches() {
    for args in [
        &["-n", "2"][..],
        &["-n", "0", "true"],
        &["true"],
        &["-n", "1", "--timeout", "soon", "true"],
        &["-n", "1", "-x", "EGRET_TEST_NOT_SET", "true"],
        &["-n", "1", "-x", "EGRET_RANK=1", "true"],
    ] {
        let output = run(args);
        assert_eq!((code(&output), output.stdout.is_empty()), (2, true), "{args:?}");
        assert!(!output.stderr.is_empty());
    }
    let help = run(&["--help"]);
    let help = text(&help.stdout);
    for word in ["EGRET_RANK", "EGRET_REGISTRY", "124", "128+SIG", "egret run -n 4", "--grace"] {
        assert!(help.contains(word), "{word} in {help}");
    }
    let all = Command::new(EGRET).arg("--help").output().expect("egret");
    let all = text(&all.stdout);
    assert!(all.contains("  run ") && !all.contains("run-"), "{all}");
    for hidden in [&["run-child", "--parent=1", "true"][..], &["run-launcher"]] {
        let output = Command::new(EGRET).args(hidden).output().expect("egret");
        assert!(!output.status.success(), "{output:?}");
    }
}

/// A folder to work in.
#[derive(Debug)]
struct Folder(std::path::PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("egret-run-ends-{}-{:x}", std::process::id(), egret::rt::random());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a folder");
        let made = Command::new("mkfifo").arg(path.join("gate")).status().expect("mkfifo");
        assert!(made.success());
        Self(path)
    }

    fn egret(&self, args: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "cd \"$0\" && exec \"$@\""]).arg(&self.0).args([EGRET, "run"]);
        command.args(args);
        command
    }

    fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("a file");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, executable).expect("permissions");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
