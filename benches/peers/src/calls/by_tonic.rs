//! tonic, on one thread on either side; its service by hand, so that no compiler of
//! protocols is needed.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::measure::{many, one_by_one};
use crate::values;
use crate::what::{self, Call, Case};
use crate::{Client, Told, runtime};

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, Message)]
struct Data {
    #[prost(bytes = "bytes", tag = "1")]
    bytes: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Ends {
    #[prost(fixed32, tag = "1")]
    ends: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(sfixed32, repeated, tag = "1")]
    values: Vec<i32>,
    #[prost(message, optional, boxed, tag = "2")]
    left: Option<Box<Node>>,
    #[prost(message, optional, boxed, tag = "3")]
    right: Option<Box<Node>>,
}

#[derive(Clone, PartialEq, Message)]
struct Total {
    #[prost(sfixed64, tag = "1")]
    total: i64,
}

impl Node {
    fn of(node: &values::Node) -> Self {
        let child =
            |node: &Option<Box<values::Node>>| node.as_ref().map(|node| Box::new(Self::of(node)));
        Self { values: node.values.to_vec(), left: child(&node.left), right: child(&node.right) }
    }

    fn total(&self) -> i64 {
        let below = |node: &Option<Box<Self>>| node.as_ref().map_or(0, |node| node.total());
        self.values.iter().map(|&value| i64::from(value)).sum::<i64>()
            + below(&self.left)
            + below(&self.right)
    }
}

/// All calls, told apart by their paths.
#[derive(Clone)]
struct Calls;

impl Service<http::Request<Body>> for Calls {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match request.uri().path() {
            NULL => unary(request, |Nothing {}| Nothing {}),
            BYTES => unary(request, |data: Data| Ends { ends: what::ends(&data.bytes) }),
            _ => unary(request, |tree: Node| Total { total: tree.total() }),
        }
    }
}

type Answer<T> = std::future::Ready<Result<Response<T>, Status>>;

fn unary<A, R>(
    request: http::Request<Body>,
    answer: fn(A) -> R,
) -> Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>
where
    A: Message + Default + 'static,
    R: Message + 'static,
{
    let mut grpc = tonic::server::Grpc::new(ProstCodec::<R, A>::default());
    let answered = Answered(answer);
    Box::pin(async move { Ok(grpc.unary(answered, request).await) })
}

/// A function as a service.
struct Answered<A, R>(fn(A) -> R);

impl<A, R> Service<Request<A>> for Answered<A, R> {
    type Response = Response<R>;
    type Error = Status;
    type Future = Answer<R>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        std::future::ready(Ok(Response::new((self.0)(request.into_inner()))))
    }
}

/// Serves.
pub fn serve(told: Told<'_>) -> Result<()> {
    runtime()?.block_on(async {
        let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into())?.with_nodelay(Some(true));
        told(&incoming.local_addr()?.to_string())?;
        let server = Server::builder()
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME);
        Ok(server.serve_with_incoming(Calls, incoming).await?)
    })
}

/// Connects to the one that serves.
pub fn connect(to: &str) -> Result<Box<dyn Client>> {
    let runtime = runtime()?;
    let channel = runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("http://{to}"))?
            .tcp_nodelay(true)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_frame_size(FRAME);
        anyhow::Ok(endpoint.connect().await?)
    })?;
    Ok(Box::new(Tonic { runtime, channel }))
}

struct Tonic {
    runtime: Runtime,
    channel: Channel,
}

async fn call<A, R>(channel: &Channel, path: &'static str, with: A) -> Result<R>
where
    A: Message + 'static,
    R: Message + Default + 'static,
{
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await?;
    let (path, codec) = (PathAndQuery::from_static(path), ProstCodec::<A, R>::default());
    Ok(grpc.unary(Request::new(with), path, codec).await?.into_inner())
}

impl Client for Tonic {
    fn run(&mut self, case: Case, rounds: u64) -> Result<Option<Vec<f64>>> {
        let channel = &self.channel;
        let null = || async { call(channel, NULL, Nothing {}).await.map(|Nothing {}| ()) };
        let times = self.runtime.block_on(async {
            match case.call {
                Call::Null if case.inflight > 1 => many(rounds, case.inflight, null).await,
                Call::Null => one_by_one(rounds, |_| (), |()| null(), |_, ()| Ok(())).await,
                Call::Bytes(len) => {
                    let make = |round| Data { bytes: vec![what::mark(round); len].into() };
                    let call = |data| call(channel, BYTES, data);
                    let check = |round, got: Ends| what::is_ends(round, len, got.ends);
                    one_by_one(rounds, make, call, check).await
                }
                Call::Tree => {
                    let plain = what::plain();
                    let make = |round| Node::of(&what::tree(round));
                    let call = |tree| call(channel, SUM, tree);
                    let check = |round, got: Total| what::is_total(round, plain, got.total);
                    one_by_one(rounds, make, call, check).await
                }
            }
        });
        times.map(Some)
    }
}

const NULL: &str = "/calls.Calls/Null";
const BYTES: &str = "/calls.Calls/Bytes";
const SUM: &str = "/calls.Calls/Sum";
/// So that no payload waits for room, and each is one frame.
const WINDOW: u32 = 4 << 20;
const FRAME: u32 = 1 << 20;
