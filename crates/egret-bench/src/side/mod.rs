//! One side of a connection under measurement.
//!
//! | file | what it has |
//! |---|---|
//! | `connection.rs` | the connection, its buffers, and the modes in which messages are sent |
//! | `eager.rs` | the modes that send and drain eager messages |

mod connection;
mod eager;

pub(crate) use connection::{
    BenchConnection, Mode, PATIENCE, Sizes, acknowledge, buffers, connected, fill, mark,
};
