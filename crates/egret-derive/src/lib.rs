//! Procedural macros of egret.
#![forbid(unsafe_code)]
