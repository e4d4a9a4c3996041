//! tarpc with bincode, on one thread on either side.

use anyhow::Result;
use futures::StreamExt;
use serde_bytes::ByteBuf;
use tarpc::server::{BaseChannel, Channel};
use tarpc::{client, context, serde_transport};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_serde::formats::Bincode;

use crate::measure::{many, one_by_one};
use crate::values::Node;
use crate::what::{self, Call, Case};
use crate::{Client, Told, runtime};

#[tarpc::service]
trait Calls {
    async fn null();
    async fn bytes(data: ByteBuf) -> u32;
    async fn sum(tree: Node) -> i64;
}

#[derive(Clone)]
struct Server;

impl Calls for Server {
    async fn null(self, _: context::Context) {}

    async fn bytes(self, _: context::Context, data: ByteBuf) -> u32 {
        what::ends(&data)
    }

    async fn sum(self, _: context::Context, tree: Node) -> i64 {
        what::total(&tree)
    }
}

/// Serves one connection after the other.
pub fn serve(told: Told<'_>) -> Result<()> {
    runtime()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        told(&listener.local_addr()?.to_string())?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let transport = serde_transport::Transport::from((stream, Bincode::default()));
            let requests = BaseChannel::with_defaults(transport).execute(Server.serve());
            // No call here waits for anything: one that is not a task of its own is faster.
            requests.for_each(|call| call).await;
        }
    })
}

/// Connects to the one that serves.
pub fn connect(to: &str) -> Result<Box<dyn Client>> {
    let runtime = runtime()?;
    let calls = runtime.block_on(async {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let transport = serde_transport::Transport::from((stream, Bincode::default()));
        anyhow::Ok(CallsClient::new(client::Config::default(), transport).spawn())
    })?;
    Ok(Box::new(Tarpc { runtime, calls }))
}

struct Tarpc {
    runtime: Runtime,
    calls: CallsClient,
}

impl Client for Tarpc {
    fn run(&mut self, case: Case, rounds: u64) -> Result<Option<Vec<f64>>> {
        let calls = &self.calls;
        let null = || async { Ok(calls.null(context::current()).await?) };
        let times = self.runtime.block_on(async {
            match case.call {
                Call::Null if case.inflight > 1 => many(rounds, case.inflight, null).await,
                Call::Null => one_by_one(rounds, |_| (), |()| null(), |_, ()| Ok(())).await,
                Call::Bytes(len) => {
                    let make = |round| ByteBuf::from(vec![what::mark(round); len]);
                    let call = |data| async { Ok(calls.bytes(context::current(), data).await?) };
                    one_by_one(rounds, make, call, |round, got| what::is_ends(round, len, got))
                        .await
                }
                Call::Tree => {
                    let plain = what::plain();
                    let call = |tree| async { Ok(calls.sum(context::current(), tree).await?) };
                    let check = |round, got| what::is_total(round, plain, got);
                    one_by_one(rounds, what::tree, call, check).await
                }
            }
        });
        times.map(Some)
    }
}
