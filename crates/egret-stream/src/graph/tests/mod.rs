//! Graphs by what a program can see of them.

mod columns;
mod derive;
mod golden;
mod hostile;
mod lying;
mod million;
mod planted;
mod property;
mod stray;
