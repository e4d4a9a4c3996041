//! Nested values on stacks of any size: refused in time, or read and dropped. An overflow ends
//! the process.

use std::fmt::Debug;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use egret_net::rt;

use super::hostile::{Foreign, List, Nest, list, unlink};
use crate::{FromWire, Reader, Serde, Wire, WireError, Writer};

const STACKS: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 1 << 20, 8 << 20];

/// Levels that no stack of these has room for.
const LEVELS: usize = 400_000;

/// Does `work` on a thread with a stack of `bytes`.
fn on_stack<R: Send + 'static>(bytes: usize, work: impl FnOnce() -> R + Send + 'static) -> R {
    #[expect(clippy::disallowed_methods, reason = "a stack of its own size")]
    let working = std::thread::Builder::new().stack_size(bytes).spawn(work);
    working.unwrap().join().unwrap()
}

/// `part` for each level, and `last`.
fn levels(part: &[u8], count: usize, last: &[u8]) -> Vec<u8> {
    [&part.repeat(count)[..], last].concat()
}

#[track_caller]
fn is_too_deep<T>(read: Result<T, WireError>) {
    let error = read.err().expect("it is too deep");
    assert!(matches!(error, WireError::TooDeep(_)), "{error}");
}

/// The deepest value that can be read on a thread with `stack`, which drops it as any other.
fn deepest<T: for<'a> FromWire<'a>>(
    stack: usize,
    part: &'static [u8],
    last: &'static [u8],
) -> usize {
    let is_read = |count: usize| {
        on_stack(stack, move || {
            let read = Reader::new(&levels(part, count, last)).read_last::<T>();
            match read {
                Ok(value) => {
                    drop(value);
                    true
                }
                Err(WireError::TooDeep(_)) => false,
                Err(other) => panic!("{other}"),
            }
        })
    };
    let (mut some, mut many) = (0, LEVELS);
    assert!(is_read(some) && !is_read(many));
    while many - some > 1 {
        let half = usize::midpoint(some, many);
        *(if is_read(half) { &mut some } else { &mut many }) = half;
    }
    some
}

#[derive(Wire, Debug)]
struct Counted(Option<Rc<Counted>>);

#[derive(Wire, Debug, Default)]
struct Locked(Option<Arc<Mutex<Locked>>>);

/// A link of [`List`]: its number, and that another follows.
const LINK: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 0, 1];

#[test]
fn hostile_depth_is_refused_on_any_stack() {
    for stack in STACKS {
        on_stack(stack, || {
            is_too_deep(Reader::new(&levels(LINK, LEVELS, &[])).read::<List>());
            is_too_deep(Reader::new(&levels(&[1, 0, 0, 0], LEVELS, &[])).read::<Nest>());
            is_too_deep(Reader::new(&levels(&[1, 0, 0, 0, 0], LEVELS, &[])).read::<Counted>());
            is_too_deep(Reader::new(&levels(&[1, 0, 0, 0, 0], LEVELS, &[])).read::<Locked>());
            is_too_deep(Reader::new(&levels(&[1], LEVELS, &[])).read::<Serde<Foreign>>());
        });
    }
}

#[test]
fn the_deepest_value_that_is_read_can_be_dropped() {
    // A thread may get a larger stack than it asked for, one that another has left.
    for (stack, fewest) in STACKS.into_iter().zip([8, 16, 32, 100, 200]) {
        let levels = [
            deepest::<List>(stack, LINK, &[0; 9]),
            deepest::<Nest>(stack, &[1, 0, 0, 0], &[0; 4]),
            deepest::<Counted>(stack, &[1, 0, 0, 0, 0], &[0]),
            deepest::<Locked>(stack, &[1, 0, 0, 0, 0], &[0]),
        ];
        assert!(levels.iter().all(|levels| *levels > fewest), "{levels:?} on {stack}");
    }
}

#[test]
fn reading_with_little_stack_left_is_too_deep() {
    /// Goes down until little is left, then reads.
    fn down(frame: [u8; 1 << 10]) -> Result<List, WireError> {
        if rt::stack_below(frame.as_ptr().addr()).unwrap() > 24 << 10 {
            return down(std::hint::black_box(frame));
        }
        Reader::new(&levels(LINK, LEVELS, &[])).read()
    }
    on_stack(256 << 10, || is_too_deep(down([0; 1 << 10])));
}

#[test]
fn a_larger_bound_than_the_stack_is_the_stack() {
    on_stack(128 << 10, || {
        let bytes = levels(LINK, LEVELS, &[]);
        is_too_deep(Reader::new(&bytes).with_stack(1 << 30).read::<List>());
    });
}

#[test]
fn what_is_too_deep_is_not_written_on_any_stack() {
    for stack in STACKS {
        on_stack(stack, || {
            // Where the compiler makes a jump of the last call, nothing is too deep.
            let long = list(LEVELS);
            let mut writer = Writer::new();
            match writer.write_copy(&long) {
                Ok(()) => assert_eq!(writer.len(), LEVELS * 9 + 1),
                Err(WireError::TooDeep(_)) => assert!(writer.is_empty()),
                Err(other) => panic!("{other}"),
            }
            unlink(long);
            let mut nest = (0..LEVELS).fold(Nest(vec![]), |inner, _| Nest(vec![inner]));
            let error = Writer::new().write_copy(&nest).unwrap_err();
            while let Some(inner) = nest.0.pop() {
                nest = inner;
            }
            assert!(matches!(error, WireError::TooDeep(_)), "{error}");
        });
    }
}
