//! egret's streams beside bincode 2, speedy, postcard and rkyv, in one run: for each
//! payload the time to write it and to read it into an owned value.
//!
//! `cargo run --release` in this folder prints the table; a name as an argument
//! restricts it to payloads that contain it. `cargo run --release -- threshold` tells from
//! which size on an array is better left where it is, and `-- checked` what it takes until a
//! graph that arrived can be used in place.
#![forbid(unsafe_code)]

mod checked;
mod graph;
#[path = "../../../crates/egret-bench/src/graph/map.rs"]
mod map;
mod measure;
mod peers;
mod threshold;
mod values;

use std::io::Write;

use checked::Back;
use egret_stream as stream;

use values::{Complex, Item, Leaf, Node, items, leaves, nodes};

fn main() -> std::io::Result<()> {
    // A large block given back teaches the allocator to keep what it has: what follows
    // is not about new pages.
    drop(std::hint::black_box(vec![1_u8; 24 << 20]));
    let only = std::env::args().nth(1).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    if only == "threshold" {
        return threshold(&mut out);
    }
    if only == "checked" {
        return checked(&mut out);
    }
    let titles = ["egret", "in slice", "bincode", "speedy", "postcard", "rkyv"];
    writeln!(
        out,
        "{:<12} {:<6} {}  egret/best",
        "ns",
        "",
        titles.map(|t| format!("{t:>10}")).concat()
    )?;
    let mut rows = |name: &str, table: fn() -> [[f64; 6]; 2]| -> std::io::Result<()> {
        if !name.contains(&only) {
            return Ok(());
        }
        for (op, row) in ["write", "read"].iter().zip(table()) {
            let least = |row: &[f64]| row.iter().copied().fold(f64::INFINITY, f64::min);
            let (ours, best) = (least(&row[..2]), least(&row[2..]));
            let figures: String = row.iter().map(|ns| format!("{ns:>10.1}")).collect();
            writeln!(out, "{name:<12} {op:<6} {figures}  {:>6.2}", ours / best)?;
        }
        out.flush()
    };
    rows("u8-100k", || peers::compare((0..100_000).map(|i| i as u8).collect::<Vec<u8>>()))?;
    rows("i32-100k", || peers::compare((0..25_000).collect::<Vec<i32>>()))?;
    rows("f64-100k", || peers::compare((0..12_500).map(f64::from).collect::<Vec<f64>>()))?;
    rows("u8-100", || peers::compare(vec![7_u8; 100]))?;
    rows("u8-500", || peers::compare(vec![7_u8; 500]))?;
    rows("f64-12", || peers::compare(vec![0.5_f64; 12]))?;
    rows("f64-62", || peers::compare(vec![0.5_f64; 62]))?;
    rows("complex1000", || peers::compare(vec![Complex { re: 0.5, im: 1.5 }; 1000]))?;
    rows("tree1023", || peers::compare::<Option<Box<Node>>>(nodes(1023)))?;
    rows("tree1000", || peers::compare::<Option<Box<Leaf>>>(leaves(1000)))?;
    rows("list100", || peers::compare::<Option<Box<Item<4>>>>(items(100)))?;
    rows("list1-int", || peers::compare::<Option<Box<Item<1>>>>(items(100)))?;
    rows("list40-int", || peers::compare::<Option<Box<Item<40>>>>(items(100)))?;
    rows("graph1760", || graph::compare(1760))?;
    rows("f64-10m", || peers::compare((0..1_250_000).map(f64::from).collect::<Vec<f64>>()))
}

fn threshold(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(
        out,
        "{:>8} {:>10}{:>10}{:>14}{:>10}",
        "bytes", "copied", "left", "copied, sent", "left"
    )?;
    for bytes in [64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16384, 65536] {
        let [copied, left, copied_sent, left_sent] = threshold::times(bytes);
        writeln!(out, "{bytes:>8} {copied:>10.1}{left:>10.1}{copied_sent:>14.1}{left_sent:>10.1}")?;
    }
    out.flush()
}

fn checked(out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{:<15} {:>10}{:>10}  egret/rkyv", "ns", "egret", "rkyv")?;
    let mut row = |name: &str, [ours, theirs]: [f64; 2]| {
        writeln!(out, "{name:<15} {ours:>10.1}{theirs:>10.1}  {:>10.3}", ours / theirs)?;
        out.flush()
    };
    row("tree1023", checked::tree(1023))?;
    for (towns, objects) in [(10, 29), (100, 355), (500, 1760)] {
        let map = |back| checked::map(towns, objects, back);
        row(&format!("map{objects}"), map(Back::Dropped))?;
        row(&format!("map{objects} turned"), map(Back::Turned))?;
    }
    Ok(())
}
