//! What the source calls a function, of the name that its compiler made for the linker.
//!
//! Only names that begin as C++ and Rust begin theirs: `a`, `St` or `Pc` are functions of C, and types to who takes them for the code of a type.

use std::fmt::{self, Write};

use crate::stacks::namer::{CUT, NAME_BYTES_MAX, shortened};

/// The name for people; as it is where no compiler has made it.
pub(in crate::stacks) fn demangle(name: &str) -> String {
    // A code entry is `.name` where `name` is a descriptor of it; macOS puts another underscore in front.
    let bare = name.strip_prefix('.').unwrap_or(name);
    let mut out = Limited(String::new());
    let done = if bare.starts_with("_R") || bare.starts_with("_Z") || bare.starts_with("__Z") {
        rust(bare, &mut out)
            || cpp(bare.strip_prefix('_').filter(|_| bare.starts_with("__Z")).unwrap_or(bare), &mut out)
    } else {
        false
    };
    if done { out.0 } else { shortened(name, NAME_BYTES_MAX).into_owned() }
}

fn rust(name: &str, out: &mut Limited) -> bool {
    let Ok(symbol) = rustc_demangle::try_demangle(name) else { return false };
    // Without the hash.
    finished(write!(out, "{symbol:#}"), out)
}

fn cpp(name: &str, out: &mut Limited) -> bool {
    let Ok(symbol) = cpp_demangle::Symbol::new(name) else { return false };
    out.0.clear();
    let done = symbol.structured_demangle(out, &cpp_demangle::DemangleOptions::default());
    finished(done, out)
}

/// Whether there is a name, which may have been cut.
fn finished(done: fmt::Result, out: &Limited) -> bool {
    (done.is_ok() || out.0.ends_with(CUT)) && !out.0.is_empty()
}

/// Some bytes of a name may stand for any number of others: what is beyond the bound is not made.
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() <= NAME_BYTES_MAX {
            self.0.push_str(text);
            return Ok(());
        }
        self.0.push_str(text);
        self.0 = shortened(&self.0, NAME_BYTES_MAX).into_owned();
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_c_are_left_as_they_are() {
        let names = [
            "a",
            "b",
            "c",
            "d",
            "f",
            "h",
            "i",
            "v",
            "x",
            "z",
            "Pc",
            "Pv",
            "Ss",
            "Sa",
            "St",
            "fi",
            "DpT_",
            "_Znot",
            "__Znot",
            "_R",
            "_Rx",
            "",
            "main",
            "alpha.constprop.0",
            "R",
            "Z",
            "_GLOBAL__sub_I_main",
            "_D3foo",
            "h.part.0",
        ];
        for name in names {
            assert_eq!(demangle(name), name);
        }
    }

    #[test]
    fn names_that_compilers_make_are_demangled() {
        let pairs = [
            ("_ZN3foo3barEv", "foo::bar()"),
            ("__ZN3foo3barEv", "foo::bar()"),
            ("._ZN3foo3barEv", "foo::bar()"),
            ("_ZN3foo3barEv.cold", "foo::bar() [clone .cold]"),
            ("_ZL5alphai.constprop.0", "alpha(int) [clone .constprop.0]"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt"),
            ("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123", "core::fmt::Write::write_fmt"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
        ];
        for (name, shown) in pairs {
            assert_eq!(demangle(name), shown, "{name}");
        }
    }

    #[test]
    fn a_name_that_is_cut_ends_with_a_mark() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let cut = demangle(&long);
        assert!(cut.len() <= NAME_BYTES_MAX && cut.ends_with("x…"), "{}", cut.len());
        assert_eq!(demangle(&long[1..]), &long[1..]);
        // Each of these is twice the one before.
        let mut bomb = String::from("_Z1fPFv");
        bomb.push_str("1a");
        for level in 0..40 {
            let last = if level == 0 { "S_".to_owned() } else { format!("S{}_", radix_36(level - 1)) };
            bomb.extend(["PFv", last.as_str(), last.as_str(), "E"]);
        }
        bomb.push('E');
        let shown = demangle(&bomb);
        assert!(shown.len() <= NAME_BYTES_MAX, "{}", shown.len());
    }

    fn radix_36(number: u32) -> String {
        let digit = |value: u32| char::from_digit(value, 36).expect("below 36").to_ascii_uppercase();
        if number < 36 { digit(number).to_string() } else { format!("{}{}", digit(number / 36), digit(number % 36)) }
    }
}
