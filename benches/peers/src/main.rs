//! egret's streams beside bincode 2, speedy, postcard and rkyv, in one run: for each
//! payload the time to write it and to read it into an owned value.
//!
//! `cargo run --release` in this folder prints the table; a name as an argument
//! restricts it to payloads that contain it.
#![forbid(unsafe_code)]

mod measure;
mod peers;
mod values;

use std::io::Write;

use values::{Complex, Item, Leaf, Node, items, leaves, nodes};

fn main() -> std::io::Result<()> {
    let only = std::env::args().nth(1).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    let titles = ["egret", "bincode", "speedy", "postcard", "rkyv"];
    writeln!(
        out,
        "{:<12} {:<6} {}  egret/best",
        "ns",
        "",
        titles.map(|t| format!("{t:>10}")).concat()
    )?;
    let mut rows = |name: &str, table: fn() -> [[f64; 5]; 2]| -> std::io::Result<()> {
        if !name.contains(&only) {
            return Ok(());
        }
        for (op, row) in ["write", "read"].iter().zip(table()) {
            let best = row[1..].iter().copied().fold(f64::INFINITY, f64::min);
            let figures: String = row.iter().map(|ns| format!("{ns:>10.1}")).collect();
            writeln!(out, "{name:<12} {op:<6} {figures}  {:>6.2}", row[0] / best)?;
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
    rows("f64-10m", || peers::compare((0..1_250_000).map(f64::from).collect::<Vec<f64>>()))
}
