//! `#[remote] trait Grid`: the trait, its table of methods, its stub.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Error, ItemTrait, Result, TraitItem, parse_quote};

use super::carried::MethodProofs;
use super::method::MacroMethod;
use super::signature::text;
use super::stub;

/// The code for a trait.
pub(super) fn expand(root: &TokenStream, mut item: ItemTrait) -> Result<TokenStream> {
    refuse(&item)?;
    let mut methods: Vec<MacroMethod> = Vec::new();
    for part in &mut item.items {
        let TraitItem::Fn(function) = part else {
            return Err(Error::new(part.span(), "a remote trait has methods and nothing else"));
        };
        let method = MacroMethod::read(function)?;
        if methods.iter().any(|known| known.name == method.name) {
            let name = method.label();
            return Err(Error::new(method.name.span(), format!("two methods are called `{name}`")));
        }
        if stub::RESERVED.contains(&&method.label()[..]) {
            let why =
                format!("the stub has a method `{}` of its own: rename this one", method.label());
            return Err(Error::new(method.name.span(), why));
        }
        methods.push(method);
    }
    if methods.len() > METHODS_MAX {
        return Err(Error::new(item.ident.span(), "a remote trait has at most 200 methods"));
    }
    // An object is called by many threads, for as long as it is exported.
    item.supertraits.push(parse_quote!(::core::marker::Send));
    item.supertraits.push(parse_quote!(::core::marker::Sync));
    item.supertraits.push(parse_quote!('static));
    let (table, stub) = (table(root, &item, &methods), stub::code(root, &item, &methods));
    Ok(quote!(#item #table #stub))
}

fn refuse(item: &ItemTrait) -> Result<()> {
    let generics = &item.generics;
    if !generics.params.is_empty() || generics.where_clause.is_some() {
        let why = "a remote trait cannot be generic: both sides must know its types";
        return Err(Error::new(generics.span(), why));
    }
    if item.unsafety.is_some() || item.auto_token.is_some() {
        return Err(Error::new(item.ident.span(), "a remote trait is a plain `trait`"));
    }
    Ok(())
}

/// What the server's side knows of the trait.
fn table(root: &TokenStream, item: &ItemTrait, methods: &[MacroMethod]) -> TokenStream {
    let (name, label) = (&item.ident, item.ident.unraw().to_string());
    let rows = methods.iter().enumerate();
    let rows = rows
        .map(|(at, method)| row(root, item, &MethodProofs::new(root, item, at, method), method));
    // Others may hold an object whose methods never need it for themselves.
    let shared = methods.iter().all(|method| !method.is_exclusive).then(|| {
        quote! {
            #[automatically_derived]
            impl #root::rmi::SharedRemoteInterface for dyn #name {}
        }
    });
    quote! {
        #shared
        #[automatically_derived]
        impl #root::rmi::RemoteInterface for dyn #name {
            const NAME: &'static str = #label;
            const METHODS: &'static [#root::rmi::__private::RemoteMethod<Self>] = &[#(#rows,)*];
        }
    }
}

fn row(
    root: &TokenStream,
    item: &ItemTrait,
    carried: &MethodProofs<'_>,
    method: &MacroMethod,
) -> TokenStream {
    let (label, is_inline) = (method.label(), method.is_inline);
    let args = method.args.iter().map(|arg| arg.name.unraw().to_string());
    let read_as = method.args.iter().map(|arg| arg.ty.read_as());
    let (takes, answers) = carried.told();
    let takes = described(root, &quote!((#(#read_as,)*)), &takes);
    let answers = described(root, &method.returns.ty(), &answers);
    let run = run(root, item, carried, method);
    quote! {
        #root::rmi::__private::RemoteMethod {
            name: #label,
            args: &[#(#args),*],
            takes: #takes,
            answers: #answers,
            is_inline: #is_inline,
            run: #run,
        }
    }
}

fn described(root: &TokenStream, ty: &TokenStream, structure: &TokenStream) -> TokenStream {
    let name = text(ty);
    quote! {
        #root::rmi::__private::MethodType {
            name: #name,
            structure: || #structure,
        }
    }
}

/// Reads the arguments, calls the method, and writes what it returns.
fn run(
    root: &TokenStream,
    item: &ItemTrait,
    carried: &MethodProofs<'_>,
    method: &MacroMethod,
) -> TokenStream {
    let (of, name) = (&item.ident, &method.name);
    let locals: Vec<_> = (0..method.args.len()).map(|at| format_ident!("arg_{at}")).collect();
    let (read, opened, scope) = (carried.read(), carried.opened(&locals), carried.scope());
    let how = if method.is_exclusive { quote!(Exclusive) } else { quote!(Shared) };
    let answer = carried.answer(&quote!(<dyn #of as #of>::#name(object, #(#opened),*)));
    quote! {
        #root::rmi::__private::MethodCode::#how(|object, served| {
            #scope
            let (#(#locals,)*) = served.args::<#read>()?;
            #answer;
            ::core::result::Result::Ok(())
        })
    }
}

/// Handlers have one byte, and some are the runtime's own.
const METHODS_MAX: usize = 200;
