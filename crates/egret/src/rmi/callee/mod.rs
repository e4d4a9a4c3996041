//! The side of the object: the table of objects, one object with its gate and its methods, the calls that
//! wait or run there, and how many of them a node takes.

pub(crate) mod accepted;
pub(crate) mod calls;
pub(crate) mod early_cancels;
pub(crate) mod fabrics;
pub(crate) mod gate;
pub(crate) mod load;
pub(crate) mod object;
pub(crate) mod objects;
pub(crate) mod target;
pub(crate) mod versions;
