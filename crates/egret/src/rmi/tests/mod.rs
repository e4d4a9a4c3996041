//! Calls over seeds: nodes that call each other, nest calls, cancel them, crash and come back.

mod alone;
mod begun;
mod cores;
mod fabrics;
mod hostile;
mod lent;
mod planted;
mod seeds;
mod serving;
mod thing;
mod trial;
mod versions;
