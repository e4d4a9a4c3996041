//! The proof that the types of a method can travel: a function for each, at the type in the
//! user's text.
//!
//! A type that cannot travel is an error in that function and nowhere else: the code of the stub
//! and of the table goes through what the function returns, which promises all they need.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Ident, ItemTrait};

use super::method::{MacroMethod, MethodArgType, MethodReturn};
use crate::layout::here;

/// What code says of the types of one method.
pub(super) struct MethodProofs<'a> {
    root: &'a TokenStream,
    stub: Ident,
    method: &'a MacroMethod,
    at: usize,
}

impl<'a> MethodProofs<'a> {
    /// Of the method `at` in a trait.
    pub(super) fn new(
        root: &'a TokenStream,
        item: &ItemTrait,
        at: usize,
        method: &'a MacroMethod,
    ) -> Self {
        Self { root, stub: format_ident!("{}Stub", item.ident), method, at }
    }

    /// The functions, which are the stub's own.
    pub(super) fn proofs(&self) -> TokenStream {
        let args = self.method.args.iter().enumerate().filter_map(|(at, arg)| match &arg.ty {
            MethodArgType::Text => None,
            MethodArgType::Slice(ty) => Some(self.proof(&at, ty, &quote!(Elements))),
            MethodArgType::Lent(ty) | MethodArgType::Value(ty) => {
                Some(self.proof(&at, ty, &quote!(Carries)))
            }
        });
        let args: TokenStream = args.collect();
        let returned = match &self.method.returns {
            MethodReturn::Value(ty) => self.proof(&"value", ty, &quote!(Carries)),
            MethodReturn::Outcome(types) => {
                let value = self.proof(&"value", &types.0, &quote!(Carries));
                let error = self.proof(&"error", &types.1, &quote!(Carries));
                quote!(#value #error)
            }
        };
        quote!(#args #returned)
    }

    fn proof(&self, part: &dyn ToString, ty: &dyn ToTokens, what: &TokenStream) -> TokenStream {
        let span = here(ty.to_token_stream().span());
        let (root, name) = (located(self.root, span), self.name(part));
        quote_spanned! {span=>
            #[inline(always)]
            fn #name() -> impl #root::__private::stream::__private::#what<#ty> {
                #root::__private::stream::__private::CarryProof::<#ty>::new()
            }
        }
    }

    fn name(&self, part: &dyn ToString) -> Ident {
        format_ident!("__method_{}_{}", self.at, part.to_string())
    }

    /// Who knows of a part of the method.
    fn part(&self, part: &dyn ToString) -> TokenStream {
        let (stub, name) = (&self.stub, self.name(part));
        quote!(#stub::#name())
    }

    /// Brings the methods of who knows into scope.
    pub(super) fn scope(&self) -> TokenStream {
        let root = self.root;
        quote! {
            #[allow(unused_imports)]
            use #root::__private::stream::__private::{Carries as _, Elements as _};
        }
    }

    /// The arguments as they are written, out of their names; `is_owned` where the caller has
    /// given them away.
    pub(super) fn sent(&self, is_owned: bool) -> TokenStream {
        let args = self.method.args.iter().enumerate().map(|(at, arg)| {
            let (name, part) = (&arg.name, self.part(&at));
            match &arg.ty {
                MethodArgType::Text => quote!(#name),
                MethodArgType::Slice(_) if is_owned => quote!(#name),
                MethodArgType::Slice(_) => quote!(#part.lend(#name)),
                MethodArgType::Lent(_) if !is_owned => quote!(#part.lend(#name)),
                MethodArgType::Lent(_) | MethodArgType::Value(_) => quote!(#part.send(#name)),
            }
        });
        quote!((#(#args,)*))
    }

    /// The arguments as the method takes them, out of `locals` that were read.
    pub(super) fn opened(&self, locals: &'a [Ident]) -> impl Iterator<Item = TokenStream> {
        let args = self.method.args.iter().zip(locals).enumerate();
        args.map(|(at, (arg, local))| {
            let part = self.part(&at);
            match &arg.ty {
                MethodArgType::Text => quote!(#local),
                MethodArgType::Lent(_) => quote!(&#part.open(#local)),
                MethodArgType::Slice(_) | MethodArgType::Value(_) => quote!(#part.open(#local)),
            }
        })
    }

    /// The types of what is read, as far as they are not inferred.
    pub(super) fn read(&self) -> TokenStream {
        let args = self.method.args.iter().map(|arg| match &arg.ty {
            MethodArgType::Text => quote!(&str),
            _ => quote!(_),
        });
        quote!((#(#args,)*))
    }

    /// The structure of the arguments, and that of what is returned.
    pub(super) fn told(&self) -> (TokenStream, TokenStream) {
        let told = |part: &dyn ToString| {
            let part = self.part(part);
            quote!(#part.told())
        };
        let args = self.method.args.iter().enumerate().map(|(at, arg)| match &arg.ty {
            MethodArgType::Text => quote!(""),
            _ => told(&at),
        });
        let (value, root) = (told(&"value"), self.root);
        let returned = match &self.method.returns {
            MethodReturn::Value(_) => value,
            MethodReturn::Outcome(_) => {
                let error = told(&"error");
                quote!(::core::result::Result::Ok(#value).or_else(|_: ()| {
                    ::core::result::Result::Err(#error)
                }))
            }
        };
        let structure = |ty: TokenStream| {
            let scope = self.scope();
            quote!({ #scope #root::__private::stream::__private::structure_by(|| #ty) })
        };
        (structure(quote!((#(#args,)*))), structure(returned))
    }

    /// `returned`, as it is written.
    pub(super) fn answer(&self, returned: &TokenStream) -> TokenStream {
        let value = self.part(&"value");
        match &self.method.returns {
            MethodReturn::Value(_) => quote!(served.value(#value.send(#returned))),
            MethodReturn::Outcome(_) => {
                let error = self.part(&"error");
                quote! {
                    served.outcome(
                        #returned
                            .map(|value| #value.send(value))
                            .map_err(|error| #error.send(error)),
                    )
                }
            }
        }
    }

    /// Calls the method with `args`.
    pub(super) fn call(&self, args: &TokenStream) -> TokenStream {
        let (root, at, value) = (self.root, self.at, self.part(&"value"));
        let error = match &self.method.returns {
            MethodReturn::Value(_) => quote! {
                #root::__private::stream::__private::CarryProof::<::std::convert::Infallible>::new()
            },
            MethodReturn::Outcome(_) => self.part(&"error"),
        };
        quote!(#value.call(#error, self, #at, &#args))
    }
}

/// The tokens of a path, as if they stood elsewhere: errors point there.
fn located(path: &TokenStream, span: Span) -> TokenStream {
    let there = |mut token: TokenTree| {
        token.set_span(token.span().located_at(span));
        token
    };
    path.clone().into_iter().map(there).collect()
}

/// How the stub calls, for who knows of the types.
pub(super) fn caller(root: &TokenStream, stub: &Ident) -> TokenStream {
    quote! {
        #[automatically_derived]
        impl #root::__private::stream::__private::MethodCaller for #stub {
            type Answer<T, E> = ::core::result::Result<T, #root::rmi::CallError<E>>;
            #[inline(always)]
            #[track_caller]
            fn call<A, T, E>(&self, method: ::core::primitive::usize, args: &A) -> Self::Answer<T, E>
            where
                A: #root::__private::stream::Wire,
                T: for<'a> #root::__private::stream::FromWire<'a>,
                E: for<'a> #root::__private::stream::FromWire<'a>,
            {
                self.0.call(method, args)
            }
        }
    }
}
