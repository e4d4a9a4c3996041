//! The stub: the trait's methods, to be called from elsewhere.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{ItemTrait, Visibility};

use super::carried::{MethodProofs, caller};
use super::method::{MacroMethod, MethodReturn};

/// What a stub has besides the trait's methods.
pub(super) const RESERVED: &[&str] = &["begin", "with_deadline", "object"];

/// The stub, and its face that does not wait.
pub(super) fn code(root: &TokenStream, item: &ItemTrait, methods: &[MacroMethod]) -> TokenStream {
    let (vis, name) = (&item.vis, &item.ident);
    let (stub, begin) = (format_ident!("{name}Stub"), format_ident!("{name}Begin"));
    let carried = |at, method| MethodProofs::new(root, item, at, method);
    let numbered = || methods.iter().enumerate();
    let waiting = numbered().map(|(at, method)| waits(root, at, &carried(at, method), method, vis));
    let beginning =
        numbered().map(|(at, method)| begins(root, at, &carried(at, method), method, vis));
    let proofs = numbered().map(|(at, method)| carried(at, method).proofs());
    let caller = caller(root, &stub);
    let about = format!("Calls a remote [`{name}`], and waits.");
    let about_begin = format!("Begins calls of a remote [`{name}`]; made by [`{stub}::begin`].");
    let own = own(root, vis, &begin);
    quote! {
        #[doc = #about]
        #[derive(::core::clone::Clone, ::core::fmt::Debug)]
        #vis struct #stub(#root::rmi::Stub<dyn #name>);
        #[automatically_derived]
        impl #root::rmi::Proxy for #stub {
            type Interface = dyn #name;
            fn of(stub: #root::rmi::Stub<dyn #name>) -> Self {
                Self(stub)
            }
        }
        #[allow(dead_code, unreachable_pub)]
        impl #stub {
            #(#waiting)*
            #own
            #(#proofs)*
        }
        #caller
        #[doc = #about_begin]
        #[derive(::core::clone::Clone, ::core::marker::Copy, ::core::fmt::Debug)]
        #vis struct #begin<'a>(&'a #root::rmi::Stub<dyn #name>);
        #[allow(dead_code, unreachable_pub)]
        impl #begin<'_> {
            #(#beginning)*
        }
    }
}

fn own(root: &TokenStream, vis: &Visibility, begin: &syn::Ident) -> TokenStream {
    quote! {
        /// Begins calls and does not wait for them: their answers are futures, and can
        /// be waited for as well.
        #[must_use]
        #vis fn begin(&self) -> #begin<'_> {
            #begin(&self.0)
        }
        /// The same, with another deadline for each call.
        #[must_use]
        #vis fn with_deadline(
            &self,
            deadline: impl ::core::convert::Into<#root::__private::net::rt::Deadline>,
        ) -> Self {
            Self(self.0.with_deadline(deadline.into()))
        }
        /// What it calls.
        #[must_use]
        #vis fn object(&self) -> #root::rmi::ObjectRef {
            self.0.object()
        }
    }
}

/// The method that waits.
fn waits(
    root: &TokenStream,
    at: usize,
    carried: &MethodProofs<'_>,
    method: &MacroMethod,
    vis: &Visibility,
) -> TokenStream {
    let MacroMethod { name, docs, .. } = method;
    let names: Vec<_> = method.args.iter().map(|arg| &arg.name).collect();
    let types = method.args.iter().map(|arg| arg.ty.passed());
    let (scope, args) = (carried.scope(), carried.sent(false));
    let call = match method.is_oneway {
        true => quote!(self.0.send(#at, &#args)),
        false => carried.call(&args),
    };
    let returned = returned(root, &method.returns);
    quote! {
        #(#docs)*
        ///
        /// # Errors
        ///
        /// If there is no answer: the error says why.
        #[track_caller]
        #vis fn #name(&self, #(#names: #types),*) -> #returned {
            #scope
            #call
        }
    }
}

/// The method that does not wait.
fn begins(
    root: &TokenStream,
    at: usize,
    carried: &MethodProofs<'_>,
    method: &MacroMethod,
    vis: &Visibility,
) -> TokenStream {
    let MacroMethod { name, docs, .. } = method;
    let names: Vec<_> = method.args.iter().map(|arg| &arg.name).collect();
    let types = method.args.iter().map(|arg| arg.ty.owned(root));
    let (scope, args) = (carried.scope(), carried.sent(true));
    let (how, pending) = match &method.returns {
        _ if method.is_oneway => (quote!(begin_send), quote!(#root::rmi::Pending<()>)),
        MethodReturn::Value(value) => (quote!(begin), quote!(#root::rmi::Pending<#value>)),
        MethodReturn::Outcome(types) => {
            let (value, error) = &**types;
            (quote!(begin), quote!(#root::rmi::Pending<#value, #error>))
        }
    };
    quote! {
        #(#docs)*
        #vis fn #name(&self, #(#names: #types),*) -> #pending {
            #scope
            self.0.#how(#at, #args)
        }
    }
}

fn returned(root: &TokenStream, returns: &MethodReturn) -> TokenStream {
    match returns {
        MethodReturn::Value(value) => quote!(::core::result::Result<#value, #root::rmi::CallError>),
        MethodReturn::Outcome(types) => {
            let (value, error) = &**types;
            quote!(::core::result::Result<#value, #root::rmi::CallError<#error>>)
        }
    }
}
