//! Checks that generated specifications use all parts of the language that are listed here.

use super::generate;

/// A feature is used if one declaration contains all these words.
const FEATURES: &[&[&str]] = &[
    // Types.
    &[": Bool"],
    &[": Int8"],
    &[": Int16"],
    &[": Int32"],
    &[": Int64"],
    &[": UInt8"],
    &[": UInt16"],
    &[": UInt32"],
    &[": UInt64"],
    &[": Float32"],
    &[": Float64"],
    &[": String"],
    &[": Bytes"],
    &[": Fixed64"],
    &[": UFixed64"],
    &[": (Float64, Float64)"],
    // Pacing.
    &["output", "∧", "∨"],
    &[":=", "@Global("],
    &[":=", "Hz"],
    &["eval @Local("],
    &["spawn", "eval @Global("],
    &["eval when"],
    // Instances.
    &["output o", "(p) :"],
    &["output o", "(p, q) :"],
    &["output o", "(p, q, r) :"],
    &["spawn when"],
    &["spawn @"],
    &["spawn with ("],
    &["close @("],
    &["close @Global("],
    &["close @Local("],
    &["close", ".hold("],
    &["eval @(", "\n  eval @(", "\n  eval @("],
    &[" = p"],
    &["p = "],
    &[" != p"],
    &["= (p, q)"],
    &[") ∧ ("],
    // Other streams.
    &[".hold(or: "],
    &[".hold().defaults("],
    &[".get(or: "],
    &[".is_fresh()"],
    &[".last(or: "],
    &[".offset(by: -1"],
    &[".offset(by: -2"],
    &[".offset(by: -5"],
    // Windows.
    &["aggregate(over: ", "using: count"],
    &["aggregate(over: ", "using: sum"],
    &["aggregate(over: ", "using: min"],
    &["aggregate(over: ", "using: max"],
    &["aggregate(over: ", "using: avg"],
    &["aggregate(over: ", "using: last"],
    &["aggregate(over: ", "using: exists"],
    &["aggregate(over: ", "using: forall"],
    &["aggregate(over: ", "using: var"],
    &["aggregate(over: ", "using: sd"],
    &["aggregate(over: ", "using: cov"],
    &["aggregate(over_discrete: ", "using: pctl"],
    &["aggregate(over_exactly: "],
    &["aggregate(over_discrete: "],
    &["aggregate(over_exactly_discrete: "],
    &["(p).aggregate(over: "],
    // Over instances.
    &["over_instances: all,"],
    &["over_instances: fresh,"],
    &["over_instances: all(where: (x) => x = "],
    &["over_instances: all(where: (x) => x < "],
    &["over_instances: all(where: (x) => x != "],
    &["over_instances: all(where: (x, y) => "],
    &["over_instances: all(where: (x, y, z) => "],
    &["over_instances: fresh(where: "],
    &["over_instances: ", "using: count"],
    &["over_instances: ", "using: sum"],
    &["over_instances: ", "using: min"],
    &["over_instances: ", "using: max"],
    &["over_instances: ", "using: exists"],
    &["over_instances: ", "using: forall"],
    &["rate.aggregate(over_instances: all, using: max)"],
    // Expressions.
    &["(if "],
    &[").1"],
    &["cast<"],
    &["sqrt("],
    &["abs("],
    &["min("],
    &["round("],
    &["matches(", "^[FM]"],
    &["matches(", "regex: \"A\""],
    &[".format("],
    &[" -> "],
    &[" & "],
    &[" | "],
    &[" ^ "],
    &[" << "],
    &[" >> "],
    &["~"],
    &[" ** "],
    &[" % "],
    &[" / "],
    // Triggers.
    &["trigger @("],
    &["trigger @Global("],
    &["trigger(p)\n", ".format(p"],
    &["trigger(p, q)\n"],
];

#[test]
fn generated_specifications_use_the_whole_language() {
    let mut unused = FEATURES.to_vec();
    for number in 0..350 {
        let (case, _, _) = generate(1, number);
        let inputs = case.inputs.iter().map(|input| format!("input {} : {}", input.name, input.ty.name()));
        let texts: Vec<String> = inputs.chain(case.declarations).collect();
        unused.retain(|words| !texts.iter().any(|text| words.iter().all(|word| text.contains(word))));
    }
    assert!(unused.is_empty(), "no specification uses {unused:#?}");
}
