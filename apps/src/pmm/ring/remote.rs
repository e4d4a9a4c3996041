//! Around the ring by remote calls.

use std::sync::Arc;

use egret::net::rt;
use egret::prelude::*;

use super::{Ring, neighbours, whose};
use crate::Error;
use crate::fault::{Fault, planted};
use crate::pmm::matrix::Columns;
use crate::rounds::Talk;
use crate::slots::{Ahead, Slots};
use crate::team::{Team, failed};

/// Where the left neighbour puts blocks.
#[egret::remote]
pub(crate) trait Station {
    /// Nothing: a stub connects when it is called first, and calls that are only begun
    /// should find it connected.
    #[nonblocking]
    fn connect(&self);

    /// Takes a block as soon as there is room: the caller is at most two ahead.
    fn put_block(&self, number: u32, block: &[f64]) -> Result<(), Ahead>;
}

struct Arrivals(Arc<Slots<f64>>);

#[egret::remote]
impl Station for Arrivals {
    fn connect(&self) {}

    fn put_block(&self, number: u32, block: &[f64]) -> Result<(), Ahead> {
        let deadline = egret::rmi::current().map_or(Deadline::DEFAULT, |call| call.deadline());
        self.0.wait_put(number, block, deadline)
    }
}

/// The neighbours, as objects.
#[derive(Debug)]
pub(crate) struct Called {
    own: Columns,
    right: StationStub,
    arrived: Arc<Slots<f64>>,
    sent: u32,
    _station: Exported,
}

impl Called {
    /// Lets the left neighbour find this process, and finds the right one.
    pub(crate) fn new(team: &mut Team, own: Columns) -> Result<Self, Error> {
        let arrived = Arc::<Slots<f64>>::default();
        let how = Export::default().bytes_max(super::BLOCK_MAX);
        let object = Box::new(Arrivals(Arc::clone(&arrived)));
        let station = team.node().export_as::<dyn Station>(object, how)?;
        station.bind(&format!("station.{}", team.rank()))?;
        // Nobody finds the station of a ring before this one.
        team.barrier()?;
        let (_, rank) = neighbours(team);
        let right: StationStub = team.find("station", rank)?;
        right.connect().map_err(|why| failed(rank, why.widen()))?;
        Ok(Self { own, right, arrived, sent: 0, _station: station })
    }
}

impl Ring for Called {
    fn around(&mut self, team: &Team, each: &mut dyn FnMut(u32, &[f64])) -> Result<Talk, Error> {
        let (left, right) = neighbours(team);
        let mut talk = Talk::default();
        let mut block = self.own.values().to_vec();
        for step in 0..team.size() {
            let began = rt::now();
            let last = step + 1 == team.size();
            let sending = (!last).then(|| {
                talk.count(&block);
                let number = self.sent;
                self.sent = number.wrapping_add(1);
                self.right.begin().put_block(number, sent(&block))
            });
            talk.time += rt::now() - began;
            each(whose(team, step), &block);
            let began = rt::now();
            if let Some(sending) = sending {
                team.wait_ready(left, &self.arrived, team.node().deadline())?;
                self.arrived.take(|values| {
                    block.clear();
                    block.extend_from_slice(values);
                });
                sending.wait().map_err(|why| failed(right, why))?;
            }
            talk.time += rt::now() - began;
        }
        Ok(talk)
    }
}

/// What is sent of a block.
fn sent(block: &[f64]) -> Vec<f64> {
    let mut sent = block.to_vec();
    if planted(Fault::WrongBlock) {
        sent[block.len() / 2] += 1.0;
    }
    sent
}
