//! Graphs by what a program can see of them.

mod derive;
