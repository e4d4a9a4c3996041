//! capnp-rpc, which runs on one thread in any case.

use std::rc::Rc;

use anyhow::Result;
use capnp_rpc::rpc_twoparty_capnp::Side;
use capnp_rpc::twoparty::VatNetwork;
use capnp_rpc::{RpcSystem, new_client};
use futures::AsyncReadExt;
use futures::io::{BufReader, BufWriter};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tokio_util::compat::TokioAsyncReadCompatExt;

use crate::measure::{many, one_by_one};
use crate::values;
use crate::what::{self, Call, Case};
use crate::{Client, Told, runtime};
use calls_capnp::calls::{
    self, BytesParams, BytesResults, NullParams, NullResults, SumParams, SumResults,
};
use calls_capnp::node;

mod calls_capnp {
    include!(concat!(env!("OUT_DIR"), "/calls_capnp.rs"));
}

struct Server;

impl calls::Server for Server {
    async fn null(self: Rc<Self>, _: NullParams, _: NullResults) -> capnp::Result<()> {
        Ok(())
    }

    async fn bytes(self: Rc<Self>, with: BytesParams, mut to: BytesResults) -> capnp::Result<()> {
        let ends = what::ends(with.get()?.get_data()?);
        to.get().set_ends(ends);
        Ok(())
    }

    async fn sum(self: Rc<Self>, with: SumParams, mut to: SumResults) -> capnp::Result<()> {
        let total = total(with.get()?.get_tree()?)?;
        to.get().set_total(total);
        Ok(())
    }
}

/// Of a tree that is read where it lies: here that is faster than to build one.
fn total(node: node::Reader<'_>) -> capnp::Result<i64> {
    let values = [node.get_a(), node.get_b(), node.get_c(), node.get_d()];
    let mut sum = values.into_iter().map(i64::from).sum();
    if node.has_left() {
        sum += total(node.get_left()?)?;
    }
    if node.has_right() {
        sum += total(node.get_right()?)?;
    }
    Ok(sum)
}

fn put(tree: &values::Node, mut to: node::Builder<'_>) {
    let [a, b, c, d] = tree.values;
    to.set_a(a);
    to.set_b(b);
    to.set_c(c);
    to.set_d(d);
    if let Some(left) = &tree.left {
        put(left, to.reborrow().init_left());
    }
    if let Some(right) = &tree.right {
        put(right, to.init_right());
    }
}

fn system(stream: TcpStream, side: Side, served: Option<calls::Client>) -> RpcSystem<Side> {
    let (input, output) = stream.compat().split();
    let (input, output) = (BufReader::new(input), BufWriter::new(output));
    let network = VatNetwork::new(input, output, side, capnp::message::ReaderOptions::new());
    RpcSystem::new(Box::new(network), served.map(|served| served.client))
}

/// Serves one connection after the other.
pub fn serve(told: Told<'_>) -> Result<()> {
    LocalSet::new().block_on(&runtime()?, async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        told(&listener.local_addr()?.to_string())?;
        let served: calls::Client = new_client(Server);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            // How a connection ends is the business of the one that calls.
            let _ = system(stream, Side::Server, Some(served.clone())).await;
        }
    })
}

/// Connects to the one that serves.
pub fn connect(to: &str) -> Result<Box<dyn Client>> {
    let (runtime, local) = (runtime()?, LocalSet::new());
    let calls = local.block_on(&runtime, async {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let mut system = system(stream, Side::Client, None);
        let calls: calls::Client = system.bootstrap(Side::Server);
        tokio::task::spawn_local(system);
        // Until it is there, calls go to a promise of it.
        calls.null_request().send().promise.await?;
        anyhow::Ok(calls)
    })?;
    Ok(Box::new(Capnp { runtime, local, calls }))
}

struct Capnp {
    runtime: Runtime,
    local: LocalSet,
    calls: calls::Client,
}

impl Client for Capnp {
    fn run(&mut self, case: Case, rounds: u64) -> Result<Option<Vec<f64>>> {
        let calls = &self.calls;
        let null = || async { Ok(calls.null_request().send().promise.await.map(drop)?) };
        let times = self.local.block_on(&self.runtime, async {
            match case.call {
                Call::Null if case.inflight > 1 => many(rounds, case.inflight, null).await,
                Call::Null => one_by_one(rounds, |_| (), |()| null(), |_, ()| Ok(())).await,
                Call::Bytes(len) => {
                    let make = |round| vec![what::mark(round); len];
                    let call = |data: Vec<u8>| async move {
                        let mut request = calls.bytes_request();
                        request.get().set_data(&data);
                        Ok(request.send().promise.await?.get()?.get_ends())
                    };
                    one_by_one(rounds, make, call, |round, got| what::is_ends(round, len, got))
                        .await
                }
                Call::Tree => {
                    let plain = what::plain();
                    let call = |tree: values::Node| async move {
                        let mut request = calls.sum_request();
                        put(&tree, request.get().init_tree());
                        Ok(request.send().promise.await?.get()?.get_total())
                    };
                    let check = |round, got| what::is_total(round, plain, got);
                    one_by_one(rounds, what::tree, call, check).await
                }
            }
        });
        times.map(Some)
    }
}
