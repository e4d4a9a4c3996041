//! What a field of an object is asked, as a trait in the output.
//!
//! Its only implementation wants of a field the very traits that are emitted, by the same
//! path: whatever `crate = …` names, it cannot prove one thing and emit another. And as each
//! question is one to this trait, a field that is no object is one error, not ten.

use proc_macro2::TokenStream;
use quote::quote;

/// The trait and its implementation.
pub(crate) fn part(stream: &TokenStream) -> TokenStream {
    let (declared, done) = (declared(stream), done(stream));
    quote! {
        #[diagnostic::on_unimplemented(
            message = "`{Self}` cannot be an object of a graph or part of one",
            label = "no object",
            note = "for a `Vec` there is `Slice<T>`, for a `String` there is `Text`; a type of \
                    one's own derives `Object`"
        )]
        trait __Part: __core::marker::Sized { #declared }
        impl<T> __Part for T
        where
            T: #stream::graph::Object + #stream::net::buf::Flat,
        {
            #done
        }
    }
}

fn declared(stream: &TokenStream) -> TokenStream {
    quote! {
        const ANY: __core::primitive::bool;
        const REFS: __core::primitive::bool;
        const EVEN: __core::primitive::bool;
        const CHECKED: __core::primitive::bool;
        fn is_value(
            bytes: &[__core::primitive::u8],
            start: __core::primitive::usize,
        ) -> __core::primitive::bool;
        fn fault(
            bytes: &[__core::primitive::u8],
            start: __core::primitive::usize,
        ) -> __core::option::Option<(__core::primitive::usize, &'static __core::primitive::str)>;
        fn describe(
            describe: &mut #stream::graph::DescribeObject<'_>,
            name: &__core::primitive::str,
        );
        fn refs<S: #stream::graph::SeeRefs>(
            &self,
            see: &mut S,
        ) -> __core::result::Result<(), S::Stop>;
        fn renew_refs<R: #stream::graph::RenewRefs>(
            &mut self,
            renew: &mut R,
        ) -> __core::result::Result<(), R::Stop>;
        fn check(
            &self,
            name: &__core::primitive::str,
        ) -> __core::result::Result<(), __std::string::String>;
    }
}

fn done(stream: &TokenStream) -> TokenStream {
    let flat = quote!(<T as #stream::net::buf::Flat>);
    let object = quote!(<T as #stream::graph::Object>);
    quote! {
        const ANY: __core::primitive::bool = #flat::ANY;
        const REFS: __core::primitive::bool = #object::REFS;
        const EVEN: __core::primitive::bool = #object::EVEN;
        const CHECKED: __core::primitive::bool = #object::CHECKED;
        #[inline]
        fn is_value(
            bytes: &[__core::primitive::u8],
            start: __core::primitive::usize,
        ) -> __core::primitive::bool {
            let part = bytes.get(start..start + __core::mem::size_of::<T>());
            #flat::ANY || part.is_some_and(#flat::is_value)
        }
        fn fault(
            bytes: &[__core::primitive::u8],
            start: __core::primitive::usize,
        ) -> __core::option::Option<(__core::primitive::usize, &'static __core::primitive::str)> {
            let part = bytes.get(start..start + __core::mem::size_of::<T>())?;
            (!#flat::is_value(part)).then(|| {
                let (offset, what) = #object::fault(part);
                (start + offset, what)
            })
        }
        fn describe(
            describe: &mut #stream::graph::DescribeObject<'_>,
            name: &__core::primitive::str,
        ) {
            describe.field::<T>(name);
        }
        #[inline]
        fn refs<S: #stream::graph::SeeRefs>(
            &self,
            see: &mut S,
        ) -> __core::result::Result<(), S::Stop> {
            #object::refs(self, see)
        }
        #[inline]
        fn renew_refs<R: #stream::graph::RenewRefs>(
            &mut self,
            renew: &mut R,
        ) -> __core::result::Result<(), R::Stop> {
            #object::renew_refs(self, renew)
        }
        fn check(
            &self,
            name: &__core::primitive::str,
        ) -> __core::result::Result<(), __std::string::String> {
            match #object::CHECKED {
                true => #object::check(self).map_err(|why| __std::format!("`{name}`: {why}")),
                false => __core::result::Result::Ok(()),
            }
        }
    }
}
