//! The faces that never wait, and those that are awaited, in a simulated world.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use egret_net::fabric::sim::Sim;
use egret_net::rt::Deadline;
use egret_node::channel::ChannelError;
use egret_node::{Links, LinksOptions};

const LONG: Deadline = Deadline::DEFAULT;

struct World {
    sim: Sim,
    here: Links,
    there: Links,
}

impl World {
    fn new(seed: u64) -> Self {
        let sim = Sim::new(seed);
        let open = |host: &str| {
            let options = LinksOptions::default().background(false).budget(8 << 20);
            Links::open(sim.nic(host), options).unwrap()
        };
        let (here, there) = (open("here"), open("there"));
        Self { sim, here, there }
    }

    /// Lets a little time pass.
    fn step(&self) {
        self.sim.run_until(self.sim.elapsed() + Duration::from_micros(10));
    }

    /// Polls all of them until they are done, and lets the world go on in between.
    fn run(&self, tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>>) {
        let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
        for _ in 0..1_000_000 {
            for task in &mut tasks {
                let mut context = Context::from_waker(Waker::noop());
                if task.as_mut().is_some_and(|it| it.as_mut().poll(&mut context).is_ready()) {
                    *task = None;
                }
            }
            if tasks.iter().all(Option::is_none) {
                return;
            }
            self.here.poll();
            self.there.poll();
            self.step();
        }
        panic!("{} tasks never end", tasks.iter().flatten().count());
    }
}

#[test]
fn awaited_ends_of_many_channels() {
    for seed in 0..20 {
        let world = World::new(seed);
        let listener = world.there.listen("sim", 100).unwrap();
        let mut tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
        for number in 0..10_u32 {
            let opening = world.here.channel("there", "sim", LONG);
            tasks.push(Box::pin(async move {
                let mut writer = opening.await.unwrap();
                for round in 0..10_u32 {
                    let mut message = writer.message();
                    message.write(&[number, round]).await.unwrap();
                    message.write_owned(vec![number; 1000 * round as usize]).await.unwrap();
                    if round % 3 == 2 {
                        message.flush().await.unwrap();
                        message.abort();
                    } else {
                        message.finish().await.unwrap();
                    }
                }
                writer.arrived().await.unwrap();
            }));
            let listener = &listener;
            tasks.push(Box::pin(async move {
                let mut reader = listener.accept().await;
                let mut rounds = 0;
                while let Some(mut message) = reader.next().await.unwrap() {
                    let mut head = [0_u32; 2];
                    let read = message.read_exact(&mut head).await;
                    if rounds % 3 == 2 {
                        let aborted = match read {
                            Ok(()) => loop {
                                match message.next_part().await {
                                    Ok(Some(_)) => {}
                                    other => break other.unwrap_err(),
                                }
                            },
                            Err(why) => why,
                        };
                        assert_eq!(aborted, ChannelError::Aborted);
                    } else {
                        read.unwrap();
                        assert_eq!(head[1], rounds);
                        let array = message.next_part().await.unwrap();
                        let bytes = array.map_or(0, |array| array.bytes().len());
                        assert_eq!(bytes, 4000 * rounds as usize);
                    }
                    rounds += 1;
                }
                assert_eq!(rounds, 10);
            }));
        }
        world.run(tasks);
    }
}

#[test]
fn ends_that_never_wait() {
    let world = World::new(1);
    let listener = world.there.listen("sim", 1).unwrap();
    assert!(listener.poll_accept().is_none());
    let mut opening = pin!(world.here.channel("there", "sim", LONG));
    let mut context = Context::from_waker(Waker::noop());
    let mut writer = loop {
        if let Poll::Ready(writer) = opening.as_mut().poll(&mut context) {
            break writer.unwrap();
        }
        world.there.poll();
        world.step();
    };
    let mut reader = loop {
        if let Some(reader) = listener.poll_accept() {
            break reader;
        }
        world.step();
    };
    let mut message = writer.message();
    let mut wrote = 0;
    let full = loop {
        match message.try_write(&[5_u8; 3000]) {
            Ok(bytes) => wrote += bytes,
            Err(why) => break why,
        }
        assert!(wrote < 10 << 20, "{wrote} bytes and nobody reads");
    };
    assert_eq!(full, ChannelError::Full);
    // Who awaits and gives that up loses nothing.
    assert!(pin!(message.flush()).poll(&mut context).is_pending());
    let mut read = 0;
    let mut ended = false;
    for _ in 0..100_000 {
        world.step();
        world.here.poll();
        if !ended && message.try_finish().is_ok() {
            ended = true;
        }
        if let Some(next) = reader.poll_next().unwrap() {
            let mut delivery = next.unwrap();
            loop {
                match delivery.poll_next_part().unwrap() {
                    Some(Some(part)) => read += part.bytes().len(),
                    Some(None) => break,
                    None => {
                        world.step();
                        world.here.poll();
                        ended = ended || message.try_finish().is_ok();
                    }
                }
            }
            break;
        }
    }
    assert_eq!(read, wrote);
}

#[test]
fn one_of_a_hundred_runs_while_all_others_stand_in_a_simulated_world() {
    let world = World::new(7);
    let listener = world.there.listen("sim", 100).unwrap();
    let (stalled, runs) = (std::cell::RefCell::new(Vec::new()), std::cell::Cell::new(0));
    let mut tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    let open = |number: usize| {
        let opening = world.here.channel("there", "sim", LONG);
        let stalled = &stalled;
        Box::pin(async move {
            let mut writer = opening.await.unwrap();
            let messages = if number == 99 { 200 } else { 1000 };
            for _ in 0..messages {
                writer.send(vec![number as u8; 7_000]).await.unwrap();
            }
            assert_eq!(number, 99, "nobody reads the others");
            stalled.borrow_mut().push(writer);
        })
    };
    let mut writers: Vec<_> = (0..99).map(&open).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut readers = Vec::new();
    for _ in 0..3000 {
        for writer in &mut writers {
            assert!(writer.as_mut().poll(&mut context).is_pending());
        }
        readers.extend(listener.poll_accept());
        world.step();
    }
    assert_eq!(readers.len(), 99);
    tasks.push(open(99));
    let (listener, runs) = (&listener, &runs);
    tasks.push(Box::pin(async move {
        let mut reader = listener.accept().await;
        while runs.get() < 200 {
            let mut message = reader.next().await.unwrap().unwrap();
            assert_eq!(message.next_part().await.unwrap().unwrap().bytes(), [99; 7_000]);
            runs.set(runs.get() + 1);
        }
    }));
    world.run(tasks);
    assert_eq!(runs.get(), 200);
}
