//! What the processes write, and what becomes of it.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::Command;
use std::time::Duration;

use egret::rt;
use rustix::process::Signal;

use crate::job::{EGRET, Job, code, run, status_of, text};

/// Each line comes in three pieces, with others writing in between.
const PIECES: &str = "i=0; while [ $i -lt 200 ]; do printf \"<$EGRET_RANK \"; printf $i; \
                      echo '>'; i=$((i+1)); done";

#[test]
fn lines_stay_whole_and_in_order() {
    let output = run(&["-n", "4", "sh", "-c", PIECES]);
    let mut next = BTreeMap::<String, u32>::new();
    for line in text(&output.stdout).lines() {
        let whole = line.strip_prefix('<').and_then(|line| line.strip_suffix('>'));
        let (rank, number) = whole.and_then(|line| line.split_once(' ')).expect(line);
        let expected = next.entry(rank.to_owned()).or_default();
        assert_eq!(number.parse::<u32>().expect(line), *expected);
        *expected += 1;
    }
    assert_eq!(next.values().copied().collect::<Vec<_>>(), [200; 4]);
}

#[test]
fn lines_are_tagged() {
    let output = run(&["-n", "2", "--tag-output", "sh", "-c", PIECES]);
    for line in text(&output.stdout).lines() {
        let rank = line.get(1..2).expect(line);
        assert!(line.starts_with(&format!("[{rank}] <{rank} ")) && line.ends_with('>'), "{line}");
    }
    let script = "echo out $EGRET_RANK; printf 'err\\n\\ntail' >&2";
    let output = run(&["-n", "1", "--tag-output", "sh", "-c", script]);
    assert_eq!(text(&output.stdout), "[0] out 0\n");
    assert_eq!(text(&output.stderr), "[0] err\n[0] \n[0] tail\n");
}

#[test]
fn bytes_are_not_changed() {
    // Any byte, lines longer than are kept whole, no newline at the end.
    let mut script = String::from("printf 'a\\0b\\377\\r\\nc'; head -c 300000 /dev/zero; ");
    script.push_str("printf '\\n\\n\\303'");
    let mut expected = b"a\0b\xff\r\nc".to_vec();
    expected.extend([0; 300_000]);
    expected.extend(b"\n\n\xc3");
    let output = run(&["-n", "1", "sh", "-c", &script]);
    assert!(output.stdout == expected, "{} bytes of {}", output.stdout.len(), expected.len());
    let output = run(&["-n", "3", "printf", "end"]);
    assert_eq!(text(&output.stdout), "end\nend\nend", "two do not share a line");
}

#[test]
fn a_fast_writer_waits_and_takes_no_memory() {
    for script in ["exec yes", "exec cat /dev/zero"] {
        let mut job = Job::of_script(2, script);
        let mut out = job.child.stdout.take().expect("stdout");
        let mut bytes = vec![0; 1 << 20];
        for _ in 0..30 {
            out.read_exact(&mut bytes).expect("no end");
        }
        rt::sleep(Duration::from_millis(100));
        let kib = status_of(job.launcher(), "VmRSS");
        let kib: u64 = kib.trim_end_matches(" kB").parse().expect("a number");
        assert!(kib < 32 << 10, "{script}: {kib} KiB");
        drop(out);
        let output = job.end();
        let told = (code(&output), text(&output.stderr));
        assert_eq!(told, (141, String::new()), "who writes for nobody gets SIGPIPE");
    }
}

#[test]
fn a_reader_that_sleeps_holds_up_output_and_nothing_else() {
    // What each says fits in a pipe of 64 KiB; what both say does not.
    let mut job = Job::of_script(2, "head -c 60000 /dev/zero; exec sleep 1000");
    let _out = job.child.stdout.take();
    job.wait_for(2, "sleep");
    job.signal(Signal::INT);
    job.wait_for(0, "sleep");
    let launcher = job.launcher();
    // It waits for its reader, until somebody has enough.
    job.signal(Signal::INT);
    crate::job::wait_some("it goes on", || status_of(launcher, "State").is_empty().then_some(()));
    assert_eq!(code(&job.end()), 130);
}

#[test]
fn what_egret_says_comes_after_what_was_said_before() {
    let mut command = Command::new("sh");
    let script = "exec \"$0\" run -n 2 sh -c \
                  '[ $EGRET_RANK = 0 ] && exec sleep 1000; echo one; printf two >&2; exit 3' 2>&1";
    command.args(["-c", script, EGRET]);
    let output = Job::start_as(command).end();
    let expected = ["one\ntwo\negret: rank 1", "two\none\negret: rank 1"];
    let said = text(&output.stdout);
    assert!(expected.iter().any(|start| said.starts_with(start)), "{said}");
    assert_eq!(code(&output), 3);
}
