//! Procedural macros of egret.
//!
//! Nothing here is used directly: each macro is re-exported beside the trait it
//! implements, and its examples stand there.
#![forbid(unsafe_code)]

mod plain;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `Plain` for a `#[repr(C)]` or `#[repr(transparent)]` struct whose
/// fields are all plain and leave no holes between them.
///
/// The struct must also be `Clone` and `Copy`. What the type system cannot see
/// (the holes) is computed while compiling; a hole is an error that names the
/// field it lies before. The crate that derives may forbid unsafe code.
///
/// A program that depends on `egret` alone says where the trait is:
/// `#[plain(crate = egret::net)]`.
#[proc_macro_derive(Plain, attributes(plain))]
pub fn derive_plain(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    plain::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
