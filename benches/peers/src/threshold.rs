//! From which size on it pays to leave an array where it is: writing it by itself, and
//! with the copy that a fabric makes of what it is given.

use std::cell::RefCell;
use std::hint::black_box;

use egret_stream::Writer;

use crate::measure::{Round, medians};

/// Times for an array of `bytes`: written copied and left, and the same copied out.
pub fn times(bytes: usize) -> [f64; 4] {
    let value = (7_u32, vec![1_u8; bytes], 9_u32);
    let value = &value;
    let sent = RefCell::new(vec![0; bytes + 64]);
    let write = |from: usize| {
        let mut writer = Writer::new().in_place_from(from);
        Round::new(move || {
            writer.clear();
            writer.write(black_box(value)).expect("writes");
            writer.len()
        })
    };
    let send = |from: usize| {
        let mut writer = Writer::new().in_place_from(from);
        Round::on(&sent, move |to| {
            writer.clear();
            writer.write(black_box(value)).expect("writes");
            writer.copy_to(to);
            writer.len()
        })
    };
    medians([write(usize::MAX), write(1), send(usize::MAX), send(1)], 4000)
}
