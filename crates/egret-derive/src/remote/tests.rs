//! Tokens in, tokens or a clear error out. What the code does is tested in `egret`.

use proc_macro2::TokenStream;

use super::*;

/// The code, without the blanks between its tokens.
fn remote(text: &str) -> Result<String> {
    let item: TokenStream = text.parse().expect("tokens");
    expand(TokenStream::new(), item).map(|tokens| tokens.to_string().replace(' ', ""))
}

fn method(text: &str) -> Result<String> {
    remote(&format!("trait T {{ {text} }}"))
}

#[test]
fn a_refusal_names_the_reason() {
    let refusals = [
        ("fn f();", "a remote method is a method of an object"),
        ("fn f(x: u8);", "a remote method is a method of an object"),
        ("fn f(self);", "an object stays where it was exported"),
        ("fn f(self: Box<Self>);", "an object stays where it was exported"),
        ("async fn f(&self);", "a remote method is not `async`"),
        ("fn f<T>(&self, t: T);", "a remote method cannot be generic"),
        ("fn f<'a>(&self, t: &'a str);", "a remote method cannot be generic"),
        ("fn f(&self) where Self: Sized;", "a remote method cannot be generic"),
        ("unsafe fn f(&self);", "a remote method is a plain `fn`"),
        ("fn f(&self) -> &str;", "a remote method cannot return a reference"),
        ("fn f(&self) -> Option<&[u8]>;", "a remote method cannot return a reference"),
        ("fn f(&self) -> impl Copy;", "a type without a structure"),
        ("fn f(&self) -> io::Result<u8>;", "which error is that?"),
        ("fn f(&self) -> Result;", "which error is that?"),
        ("fn f(&self, x: &mut u8);", "an argument travels to the object and not back"),
        ("fn f(&self, x: &'static str);", "an argument of a remote method lives as long"),
        ("fn f(&self, x: Option<&str>);", "a reference inside of an argument"),
        ("fn f(&self, x: &[&str]);", "a reference inside of an argument"),
        ("fn f(&self, x: impl Copy);", "a type without a structure"),
        ("fn f(&self, x: &dyn Copy);", "a type without a structure"),
        ("fn f(&self, (a, b): (u8, u8));", "an argument of a remote method has a name"),
        ("#[oneway] fn f(&self) -> u8;", "a caller does not wait for a `#[oneway]` method"),
        ("fn f(&self); fn f(&self, x: u8);", "two methods are called `f`"),
        ("fn begin(&self);", "the stub has a method `begin` of its own: rename this one"),
        ("const N: u8;", "a remote trait has methods and nothing else"),
        ("type A;", "a remote trait has methods and nothing else"),
    ];
    for (text, expected) in refusals {
        let refusal = method(text).expect_err(text).to_string();
        assert!(refusal.starts_with(expected), "{text}: {refusal}");
    }
    let many = (0..13).map(|at| format!("a{at}: u8")).collect::<Vec<_>>().join(", ");
    let refusal = method(&format!("fn f(&self, {many});")).expect_err("13 arguments");
    assert!(refusal.to_string().starts_with("a remote method has at most 12"));
}

#[test]
fn only_traits_and_their_implementations_can_be_remote() {
    for text in ["struct S;", "fn f() {}", "enum E { A }"] {
        assert_eq!(remote(text).expect_err(text).to_string(), NEITHER);
    }
    let refusal = remote("impl Board { }").expect_err("no trait").to_string();
    assert!(refusal.starts_with("`#[remote]` needs the trait"), "{refusal}");
    let refusal = remote("trait T<X> { }").expect_err("generic").to_string();
    assert!(refusal.starts_with("a remote trait cannot be generic"), "{refusal}");
    let refusal = expand(
        quote!(fast),
        quote!(
            trait T {}
        ),
    )
    .expect_err("fast")
    .to_string();
    assert!(refusal.starts_with("`#[remote]` takes `crate = path`"), "{refusal}");
}

#[test]
fn borrowed_arguments_are_owned_by_what_begins() {
    let code = method("fn f(&self, a: &[f64], b: &str, c: &Tree, d: u8);").unwrap();
    let waits = "fnf(&self,a:&[f64],b:&str,c:&Tree,d:u8)";
    assert!(code.contains(waits), "{code}");
    let begins = "a:impl::egret::rmi::Array<f64>,b:::std::string::String,c:Tree";
    assert!(code.contains(begins), "{code}");
    assert!(code.contains("served.args::<(_,&str,_,_,)>"), "{code}");
    let opened = "object,TStub::__method_0_0().open(arg_0),arg_1,&TStub::__method_0_2().open(arg_2),\
                  TStub::__method_0_3().open(arg_3)";
    assert!(code.contains(opened), "{code}");
    let sent = "(TStub::__method_0_0().lend(a),b,TStub::__method_0_2().lend(c),\
                TStub::__method_0_3().send(d),)";
    assert!(code.contains(sent), "{code}");
}

#[test]
fn each_type_is_proved_once() {
    let code = method("fn f(&self, a: &[A], c: &C, d: D) -> Result<V, E>;").unwrap();
    for (part, ty, what) in [
        ("0", "A", "Elements"),
        ("1", "C", "Carries"),
        ("2", "D", "Carries"),
        ("value", "V", "Carries"),
        ("error", "E", "Carries"),
    ] {
        let private = "::egret::__private::stream::__private::";
        let proof =
            format!("fn__method_0_{part}()->impl{private}{what}<{ty}>{{{private}CarryProof::");
        assert_eq!(code.matches(&proof).count(), 1, "{proof}: {code}");
    }
    assert_eq!(code.matches("__private::CarryProof::").count(), 5, "{code}");
}

#[test]
fn the_attributes_are_taken_out_of_the_trait() {
    let code = method("#[oneway] #[nonblocking] fn f(&self);").unwrap();
    assert!(!code.contains("oneway") && !code.contains("nonblocking"), "{code}");
    assert!(code.contains("is_inline:true"), "{code}");
    assert!(code.contains("self.0.send(0usize"), "{code}");
}

#[test]
fn an_outcome_has_the_error_of_the_method() {
    let code = method("fn f(&mut self) -> Result<u64, Worse>;").unwrap();
    assert!(code.contains("Result<u64,::egret::rmi::CallError<Worse>>"), "{code}");
    assert!(code.contains("Pending<u64,Worse>"), "{code}");
    assert!(code.contains("MethodCode::Exclusive"), "{code}");
    assert!(code.contains("\"Result<u64,Worse>\""), "{code}");
}

#[test]
fn types_are_told_as_they_are_written() {
    let told = |ty: TokenStream| signature::text(&ty);
    assert_eq!(told(quote!((&[f64], Vec<Option<u8>>,))), "(&[f64], Vec<Option<u8>>)");
    assert_eq!(told(quote!([u8; 4])), "[u8; 4]");
    assert_eq!(told(quote!(())), "()");
    assert_eq!(told(quote!(::core::result::Result<u64, dyn Worse>)), "Result<u64, dyn Worse>");
}

#[test]
fn an_implementation_stays_as_it_is() {
    let code = remote("impl<T: Copy> Grid for Board<T> { fn f(&self) {} }").unwrap();
    assert!(code.starts_with("impl<T:Copy>GridforBoard<T>{fnf"), "{code}");
    assert!(code.contains("impl<T:Copy>::egret::rmi::Exports<dynGrid>forBoard<T>"), "{code}");
}

#[test]
fn an_interface_without_exclusive_methods_is_shared() {
    let shared = "impl::egret::rmi::SharedRemoteInterfacefordynT{}";
    assert!(method("fn f(&self); fn g(&self);").unwrap().contains(shared));
    assert!(!method("fn f(&self); fn g(&mut self);").unwrap().contains(shared));
}
