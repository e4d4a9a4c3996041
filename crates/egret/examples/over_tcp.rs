//! An array sent from one machine to another, by those who know the secret.
//!
//! Without arguments both sides run here. Between two machines:
//!
//! ```sh
//! cargo run -p egret --example over_tcp -- listen reachable     # says where it listens
//! cargo run -p egret --example over_tcp -- send node7:40001 KEY # as it said
//! ```
//!
//! Each side waits for half a minute. The secret is the same on both; a real one is
//! random (`Secret::random`), and comes from where others cannot read it.

use std::error::Error;
use std::io::{self, Write};

use egret::buf::Pool;
use egret::fabric::Fabrics;
use egret::rt::{self, Deadline};
use egret::vi::{Address, Descriptor, Nic, NicOptions, PublicKey, Secret, ViOptions};

const NUMBERS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => both(),
        ["listen", host] => {
            let nic = open(host, "swordfish")?;
            let key = nic.key().ok_or("a nic of tcp has a key")?;
            writeln!(io::stdout(), "listening at {} with key {key}", nic.host())?;
            receive(&nic)
        }
        ["send", host, key] => send(&open("", "swordfish")?, &to(host, key.parse()?)),
        _ => Err("over_tcp [listen HOST | send ADDRESS:PORT KEY]".into()),
    }
}

/// A nic that listens at `host`: nowhere but on loopback, if that is empty.
fn open(host: &str, secret: &str) -> Result<Nic, Box<dyn Error>> {
    Ok(Fabrics::default().open("tcp", NicOptions::new(host).secret(Secret::new(secret)))?)
}

fn both() -> Result<(), Box<dyn Error>> {
    let there = open("", "swordfish")?;
    // A secret that could be guessed is proven to whom one knows by its key.
    let to = to(there.host(), there.key().ok_or("a nic of tcp has a key")?);
    let receiving = rt::spawn("receiving", move || receive(&there).map_err(|e| e.to_string()))?;

    let stranger = open("", "guess")?.wait_connect(&to, &ViOptions::default(), Deadline::DEFAULT);
    assert!(matches!(&stranger, Err(why) if why.is_secret_refused()), "{stranger:?}");

    send(&open("", "swordfish")?, &to)?;
    Ok(receiving.join().expect("it does not panic")?)
}

fn to(host: &str, key: PublicKey) -> Address {
    Address::new(host, "numbers", 0).key(key)
}

fn send(nic: &Nic, to: &Address) -> Result<(), Box<dyn Error>> {
    let vi = nic.wait_connect(to, &ViOptions::default(), Deadline::DEFAULT)?;
    let mut numbers = Pool::new(8 * NUMBERS, 1)?.take_typed::<f64>(NUMBERS)?;
    for (number, at) in numbers.iter_mut().zip(1_u32..) {
        *number = f64::from(at);
    }
    vi.post_send(Descriptor::typed(numbers))?;
    Ok(vi.send_queue().wait(Deadline::DEFAULT)?.done()?)
}

fn receive(nic: &Nic) -> Result<(), Box<dyn Error>> {
    let listener = nic.listen("numbers", 0, &ViOptions::default())?;
    let vi = listener.wait_accept(Deadline::DEFAULT)?;
    let pool = Pool::new(8 * NUMBERS, 1)?;
    vi.post_recv(Descriptor::typed(pool.take_typed::<f64>(NUMBERS)?))?;
    let numbers = vi.recv_queue().wait(Deadline::DEFAULT)?.ok()?.into_typed::<f64>()?;
    let sum: f64 = numbers.iter().sum();
    writeln!(io::stdout(), "{} numbers, together {sum}", numbers.len())?;
    Ok(())
}
