//! The header and the structs in Rust have the same layout, according to a C compiler.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::fmt::Write;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use fairstream_plugin_abi::abi::{Error, Plugin, Progress, RawSink, RawSource, Str, code, run_end};

/// Expressions in C with their values in Rust.
fn expected() -> Vec<(String, i64)> {
    let mut expected = Vec::new();
    macro_rules! same {
        ($c:literal, $rust:ty, $($field:ident),*) => {
            expected.push((format!("sizeof({})", $c), size_of::<$rust>() as i64));
            $(expected.push((
                format!("offsetof({}, {})", $c, stringify!($field)),
                offset_of!($rust, $field) as i64,
            ));)*
        };
    }
    same!("FairstreamStr", Str, ptr, len);
    same!("FairstreamError", Error, message, release);
    same!("FairstreamProgress", Progress, rows, dropped, is_relative, resume);
    same!("FairstreamSource", RawSource, size, progress, acknowledge, cancel, release, private_data);
    same!("FairstreamSink", RawSink, size, write, flush, finish, release, private_data);
    same!("FairstreamPlugin", Plugin, size, minor, name, version, about, open_source, open_sink);
    for (name, value) in [
        ("FAIRSTREAM_OK", code::OK),
        ("FAIRSTREAM_BAD_OPTION", code::BAD_OPTION),
        ("FAIRSTREAM_BAD_DATA", code::BAD_DATA),
        ("FAIRSTREAM_IO", code::IO),
        ("FAIRSTREAM_CANCELLED", code::CANCELLED),
        ("FAIRSTREAM_UNSUPPORTED", code::UNSUPPORTED),
        ("FAIRSTREAM_INTERNAL", code::INTERNAL),
        ("FAIRSTREAM_HUNG_UP", code::HUNG_UP),
        ("FAIRSTREAM_RUN_COMPLETE", run_end::COMPLETE),
        ("FAIRSTREAM_RUN_STOPPED", run_end::STOPPED),
        ("FAIRSTREAM_RUN_FAILED", run_end::FAILED),
    ] {
        expected.push((name.to_owned(), value.into()));
    }
    expected
}

#[test]
fn the_header_says_what_the_structs_are() {
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut program = String::from("#include \"fairstream_plugin.h\"\n");
    for (expression, value) in expected() {
        writeln!(program, "static_assert({expression} == {value}, \"{expression}\");").unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    for (compiler, standard, name) in [("cc", "-std=c11", "check.c"), ("c++", "-std=c++17", "check.cpp")] {
        let text = if compiler == "cc" { format!("#include <assert.h>\n{program}") } else { program.clone() };
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        let output = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"])
            .arg(&include)
            .arg(&path)
            .output();
        if compiler == "c++" && output.is_err() {
            println!("SKIPPED: there is no C++ compiler here");
            continue;
        }
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
