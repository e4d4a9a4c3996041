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

/// Implements `Wire` and `FromWire` for a struct or an enum: how it is written to a
/// stream and read from one.
///
/// | at the type | |
/// |---|---|
/// | `#[wire(plain)]` | a `Plain` struct travels as its bytes, aligned; arrays of it in one piece, and both can be read in place |
/// | `#[wire(check = fn)]` | `fn(&T) -> bool` or `-> Result<(), impl Display>`, asked before a value is handed out |
/// | `#[wire(bound = "T: …")]` | in place of `T: Wire` and `T: FromWire<'a>` for each parameter |
/// | `#[wire(crate = path)]` | where the traits are |
///
/// | at a field | |
/// |---|---|
/// | `#[wire(skip)]` | does not travel; on arrival it is its type's default |
/// | `#[wire(default = fn)]` | does not travel; on arrival it is what `fn()` gives |
/// | `#[wire(with = module)]` | travels by the module's `write`, `read` and `describe` |
#[proc_macro_derive(Wire, attributes(wire))]
pub fn derive_wire(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    wire::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `Object`, and with it `Flat`, for a struct or an enum: it can lie in a graph.
///
/// A struct is `#[repr(C)]` or `#[repr(transparent)]`; an enum has the type of its tag, `u8` to
/// `u64` or `i8` to `i64`, as its `repr`. Its variants may have numbers of one's own, and fields.
/// The type must also be `Clone` and `Copy`, and all fields objects.
///
/// Holes are looked for while compiling, in each variant by itself: one is an error that names
/// the field it lies before. A variant is as large as the enum, so a small one has to name the
/// rest, as in `Nothing([u8; 4])`. Nothing is aligned to more than 8 bytes.
///
/// The crate that derives may forbid unsafe code.
///
/// | at the type | |
/// |---|---|
/// | `#[object(check = fn)]` | `fn(&T) -> bool` or `-> Result<(), impl Display>`, asked of each object of a graph that arrives |
/// | `#[object(crate = path)]` | where `egret_stream` is |
#[proc_macro_derive(Object, attributes(object))]
pub fn derive_object(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    object::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
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
