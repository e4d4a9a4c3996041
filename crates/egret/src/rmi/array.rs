//! Arrays that are given away.

use egret_net::buf::Shared;
use egret_stream::{Bulk, Wire};

/// What a call that is only begun takes for an argument `&[T]`: a vector; or a buffer of a
/// pool that is shared, which others can read meanwhile and which is not copied either.
///
/// ```
/// use egret::net::buf::Pool;
/// use egret::rmi::Array;
///
/// fn takes(_: impl Array<f64>) {}
///
/// let row = Pool::new(4096, 1)?.take_typed::<f64>(512)?.share();
/// takes(row.clone());
/// takes(row.to_vec());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Array<T>: Wire {}

impl<T: Wire> Array<T> for Vec<T> {}
impl<T: Bulk> Array<T> for Shared<T> {}
