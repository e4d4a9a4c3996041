//! A connection and nothing else, for scale: blocking reads and writes of a length and
//! as many bytes, answered by four.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use anyhow::Result;
use egret_bench::limit::Stopwatch;

use crate::what::{self, Call, Case};
use crate::{Client, Told};

/// Serves one connection after the other.
pub fn serve(told: Told<'_>) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    told(&listener.local_addr()?.to_string())?;
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut memory, mut len) = (Vec::new(), [0; 4]);
        while stream.read_exact(&mut len).is_ok() {
            memory.resize(u32::from_le_bytes(len) as usize, 0);
            stream.read_exact(&mut memory)?;
            stream.write_all(&what::ends(&memory).to_le_bytes())?;
        }
    }
}

/// Connects to the one that serves.
pub fn connect(to: &str) -> Result<Box<dyn Client>> {
    let stream = TcpStream::connect(to)?;
    stream.set_nodelay(true)?;
    Ok(Box::new(ByHand { stream }))
}

struct ByHand {
    stream: TcpStream,
}

impl Client for ByHand {
    fn run(&mut self, case: Case, rounds: u64) -> Result<Option<Vec<f64>>> {
        let len = match case.call {
            Call::Null if case.inflight == 1 => 0,
            Call::Bytes(len) => len,
            Call::Null | Call::Tree => return Ok(None),
        };
        let (mut times, mut answer) = (Vec::with_capacity(rounds as usize), [0; 4]);
        let mut memory = vec![0; 4 + len];
        memory[..4].copy_from_slice(&(len as u32).to_le_bytes());
        for round in 1..=rounds {
            memory[4..].fill(what::mark(round));
            let start = Stopwatch::start();
            self.stream.write_all(&memory)?;
            self.stream.read_exact(&mut answer)?;
            times.push(start.nanos());
            if len > 0 {
                what::is_ends(round, len, u32::from_le_bytes(answer))?;
            }
        }
        Ok(Some(times))
    }
}
