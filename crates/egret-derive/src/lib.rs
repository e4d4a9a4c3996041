//! Procedural macros of egret.
//!
//! Nothing here is used directly: each macro is re-exported beside the trait it
//! implements, and its examples stand there.
#![forbid(unsafe_code)]

mod layout;
mod object;
mod object_attr;
mod object_body;
mod object_enum;
mod object_part;
mod plain;
mod remote;
mod wire;
mod wire_attr;
mod wire_body;
mod wire_plain;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

#[doc = include_str!("../doc/plain.md")]
#[proc_macro_derive(Plain, attributes(plain))]
pub fn derive_plain(input: TokenStream) -> TokenStream {
    plain(input, &quote!(::egret_net))
}

#[doc = include_str!("../doc/plain.md")]
#[proc_macro_derive(EgretPlain, attributes(plain))]
pub fn derive_plain_of_egret(input: TokenStream) -> TokenStream {
    plain(input, &quote!(::egret::__private::net))
}

fn plain(input: TokenStream, net: &Tokens) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    plain::expand(&input, net).unwrap_or_else(syn::Error::into_compile_error).into()
}

#[doc = include_str!("../doc/wire.md")]
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(input: TokenStream) -> TokenStream {
    wire(input, &quote!(::egret_stream))
}

#[doc = include_str!("../doc/wire.md")]
#[proc_macro_derive(EgretWire, attributes(wire))]
pub fn derive_wire_of_egret(input: TokenStream) -> TokenStream {
    wire(input, &quote!(::egret::__private::stream))
}

fn wire(input: TokenStream, stream: &Tokens) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    wire::expand(&input, stream).unwrap_or_else(syn::Error::into_compile_error).into()
}

#[doc = include_str!("../doc/object.md")]
#[proc_macro_derive(Object, attributes(object))]
pub fn derive_object(input: TokenStream) -> TokenStream {
    object(input, &quote!(::egret_stream))
}

#[doc = include_str!("../doc/object.md")]
#[proc_macro_derive(EgretObject, attributes(object))]
pub fn derive_object_of_egret(input: TokenStream) -> TokenStream {
    object(input, &quote!(::egret::__private::stream))
}

fn object(input: TokenStream, stream: &Tokens) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    object::expand(&input, stream).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes the methods of a trait callable from other nodes.
///
/// At a trait it adds, beside it:
///
/// * `GridStub`, whose methods are the trait's and return `Result<T, CallError>`, or
///   `Result<T, CallError<E>>` for those that return `Result<T, E>`. They wait for the
///   answer. `stub.begin()` has the same methods with owned arguments (`Vec<T>` or a shared
///   buffer for `&[T]`, `String` for `&str`); they do not wait, and their `Pending` is a
///   future.
/// * the table by which a server finds the methods.
///
/// The trait gets the bounds `Send + Sync + 'static`: an object is called by many threads.
///
/// At an implementation, `#[remote] impl Grid for Board`, it says that a `Board` is exported
/// as a `Grid`.
///
/// | at a method | |
/// |---|---|
/// | `#[oneway]` | returns nothing, and the caller does not wait for it |
/// | `#[nonblocking]` | is short and waits for nothing: it runs inside the handler of its call. A method without this may block; it runs on the thread that receives the call too, outside of the handler, unless it takes long |
///
/// Arguments that are `&[T]` of numbers or plain structs and `&str` are read where they
/// arrived; of `&T` the server makes a value. Whatever travels implements `Wire`, and a type that
/// does not is one error, where it stands. Types of arguments have no other lifetimes, hidden ones
/// included, as `Cow<str>` has one.
///
/// `#[remote(crate = path)]` says where `egret` is. The documentation of `egret::rmi` begins with a whole
/// program.
#[proc_macro_attribute]
pub fn remote(args: TokenStream, item: TokenStream) -> TokenStream {
    remote::expand(args.into(), item.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
