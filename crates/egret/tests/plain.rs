//! A program that depends on `egret` alone, forbids unsafe code and the
//! warnings of the workspace, and still has plain types of its own.
#![forbid(unsafe_code)]

use egret::buf::Plain;

/// A particle of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[repr(C)]
struct Particle {
    position: [f64; 3],
    charge: Charge,
    cell: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Plain)]
#[repr(transparent)]
struct Charge(f32);

fn name_of<T: Plain>(_value: &T) -> &'static str {
    T::NAME
}

#[test]
fn plain_types_need_no_unsafe_and_no_second_dependency() {
    let particle = Particle { position: [0.0; 3], charge: Charge(-1.0), cell: 3 };
    assert_eq!(name_of(&particle), "Particle");
    assert_eq!(name_of(&particle.charge), "Charge");
    assert_ne!(Particle::FINGERPRINT, Charge::FINGERPRINT);
    assert_eq!(size_of::<Particle>(), 32);
}

/// Programs that the compiler is given, and what it says of them.
#[cfg(test)]
mod compiled {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// What the compiler says of a remote trait with this `method`, one line for each error;
    /// nothing if it compiles.
    fn errors(library: &Path, odd: &str, method: &str) -> Vec<String> {
        let text = format!("{odd}#[egret::remote]\npub trait Grid {{\n{method}\n}}\n");
        let folder = own_folder();
        let source = folder.join("grid.rs");
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
        compiler.args(["--edition=2024", "--crate-type=lib", "--emit=metadata"]);
        compiler.args(["--error-format=short", "-Awarnings", "-L"]).arg({
            let mut dependencies = std::ffi::OsString::from("dependency=");
            dependencies.push(library.parent().unwrap());
            dependencies
        });
        compiler.arg("--extern").arg({
            let mut egret = std::ffi::OsString::from("egret=");
            egret.push(library);
            egret
        });
        let said = compiler.arg("--out-dir").arg(&folder).arg("grid.rs").current_dir(&folder);
        let said = said.output().expect("the compiler that compiled this");
        std::fs::remove_dir_all(&folder).unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        let errors = text.lines().filter(|line| line.contains(": error"));
        match errors.map(str::to_owned).collect::<Vec<_>>() {
            none if none.is_empty() && !said.status.success() => vec![text],
            errors => errors,
        }
    }

    /// A folder of this test's own.
    fn own_folder() -> PathBuf {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("egret-compiled-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    /// What a type needs to travel, as the errors advise.
    const ADVISED: &str = "#[derive(egret::wire::Wire)] pub struct Odd(u8);\n";
    /// A type that lacks it.
    const ODD: &str = "pub struct Odd(u8);\n";

    /// The library that this test is linked with lies beside it. There may be older ones, which
    /// nothing can be compiled with any more.
    fn library() -> PathBuf {
        let here = std::env::current_exe().unwrap();
        let is_library = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            name.starts_with("libegret-") && name.ends_with(".rlib")
        };
        let beside = std::fs::read_dir(here.parent().unwrap()).unwrap();
        let mut libraries: Vec<_> =
            beside.map(|entry| entry.unwrap().path()).filter(is_library).collect();
        libraries.sort_by_key(|path| std::fs::metadata(path).unwrap().modified().unwrap());
        let compiles = |path: &PathBuf| errors(path, ADVISED, "fn f(&self, odd: Odd);").is_empty();
        libraries.into_iter().rev().find(compiles).expect("the advice compiles with the library")
    }

    #[test]
    fn derives_find_the_crate_by_themselves() {
        let odd = "#[derive(Clone, Copy, egret::buf::Plain, egret::wire::Wire)]\n\
                   #[wire(plain)]\n#[repr(C)]\npub struct Odd(u64);\n\
                   #[derive(Clone, Copy, egret::graph::Object)]\n#[repr(C)]\n\
                   pub struct Node { next: Option<egret::graph::Ref<Node>>, number: u64 }\n\
                   pub trait Shape: egret::wire::Dynamic {}\negret::wire::dynamic!(Shape);\n";
        assert_eq!(errors(&library(), odd, "fn f(&self, odd: &[Odd]) -> Odd;"), [""; 0]);
    }

    #[test]
    fn a_type_that_cannot_travel_is_one_error_where_it_stands() {
        let library = library();
        let read = "error[E0277]: `Odd` cannot be read from a stream";
        for (method, expected) in [
            ("fn f(&self, a: u8, odd: Odd, b: u8);", read),
            ("fn f(&self, odd: &Odd) -> u8;", read),
            ("fn f(&mut self, a: &str) -> Odd;", read),
            ("fn f(&self, a: &[f64]) -> Result<Odd, u8>;", read),
            ("fn f(&self) -> Result<u8, Odd>;", read),
            ("#[oneway] fn f(&self, odd: Odd);", read),
            ("fn f(&self, many: Vec<Option<Odd>>);", read),
            ("fn f(&self, odd: &[Odd]);", "error[E0277]: `Odd` cannot be read in place"),
        ] {
            let at = method.find("Vec").or(method.find("Odd")).unwrap() + 1;
            let found = errors(&library, ODD, method);
            let [error] = &found[..] else { panic!("{method}: {found:#?}") };
            let wanted = format!("grid.rs:4:{at}: {expected}");
            assert!(error.starts_with(&wanted), "{error}, not {wanted}");
            if !method.contains("&[Odd]") {
                assert_eq!(errors(&library, ADVISED, method), [""; 0], "{method}");
            }
        }
        let two = errors(&library, ODD, "fn f(&self, a: Odd, b: Odd);");
        assert_eq!(two.len(), 2, "one for each: {two:#?}");
    }
}
