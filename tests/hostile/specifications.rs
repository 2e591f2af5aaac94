//! Specifications on which the RTLola frontend would overflow its stack, or not end.

use std::time::{Duration, Instant};

use crate::cli::Folder;

#[test]
fn a_specification_without_measure_is_refused() {
    let many = |piece: &str, count: usize| piece.repeat(count);
    for (name, text, expected) in [
        ("parentheses", format!("trigger {}a{} > 0", many("(", 100_000), many(")", 100_000)), "256 brackets"),
        ("terms", format!("trigger a{} > 0", many(" + a", 100_000)), "4096 operators"),
        ("negations", format!("trigger {}(a > 0)", many("!", 400_000)), "4096 operators"),
        ("alternatives", format!("output b := {}0", many("if a > 0 then 1 else ", 20_000)), "4096 operators"),
        ("size", format!("trigger a > 0 \"{}\"", many("x", 2_000_000)), "1048576 bytes"),
        ("empty window", "output b := a.aggregate(over_discrete: 0, using: sum)".to_owned(), "over_discrete"),
    ] {
        let folder = Folder::new().file("a.lola", format!("input a : Int64\n{text}\n"));
        let said = folder.run("check a.lola");
        assert!(
            said.contains(expected) && said.ends_with("exit code 2\n"),
            "{name}: {}",
            &said[..2000.min(said.len())]
        );
        assert!(said.len() < 5000, "{name}: {} bytes", said.len());
    }
}

/// 229 bytes of specification kept the frontend busy for more than half a minute.
#[test]
fn a_specification_that_takes_exponential_time_is_refused() {
    let inputs: String = (0..12).map(|input| format!("input a{input} : Int64\n")).collect();
    let names: Vec<String> = (0..12).map(|input| format!("a{input}")).collect();
    let folder = Folder::new().file("a.lola", format!("{inputs}output b @({}) := 1\n", names.join(" || ")));
    let begin = Instant::now();
    let said = folder.run("check a.lola");
    assert!(said.contains("takes more than 10 s") && said.ends_with("exit code 2\n"), "{said}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}
