//! What holds for buffers whatever happens to them, and that the checks for it
//! can fail.

mod bias;
mod entry;
mod model;
mod plan;
mod planted;
mod pool;
mod protocol;
mod region;
mod slots;
mod states;
