//! Snapshots of the command line: arguments, exit code, standard output and standard error.

use std::process::Stdio;

use insta::assert_snapshot;

use crate::support::{fairstream, without_seconds};

/// A folder with a specification that reads `id`, `score` and `name`, and files to run it on.
pub(crate) struct Folder(tempfile::TempDir);

const SPEC: &str = r#"input id : UInt8
input score : Float64
input name : String
output doubled := score * 2.0
trigger score > 9.5 "too high"
"#;

impl Folder {
    pub(crate) fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        folder.file("spec.lola", SPEC)
    }

    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Folder {
        std::fs::write(self.0.path().join(name), content).unwrap();
        self
    }

    /// Runs `fairstream` there and returns exit code, standard output and standard error.
    pub(crate) fn run(&self, arguments: &str) -> String {
        let output = fairstream()
            .args(arguments.split_whitespace())
            .current_dir(self.0.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(!err.contains("panicked") && !err.contains("backtrace"), "{err}");
        let err = without_seconds(&err);
        format!(
            "$ fairstream {arguments}\n{out}---- standard error\n{err}---- exit code {}\n",
            output.status.code().unwrap_or(-1)
        )
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.0.path()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }
}

/// `run spec.lola events.csv` on rows under the header `time,id,score,name`.
fn on_rows(rows: impl AsRef<[u8]>) -> String {
    let content = [b"time,id,score,name\n", rows.as_ref()].concat();
    Folder::new().file("events.csv", content).run("run spec.lola events.csv")
}

#[test]
fn good_input() {
    assert_snapshot!("good_nothing_violated", on_rows("1,1,1.5,Ada\n2,2,,Bob\n"));
    assert_snapshot!("good_violated", on_rows("1,1,9.6,Ada\n2,2,,Bob\n3,3,10,Cy\n"));
    let folder = Folder::new().file("events.csv", "time,id,score,name\n1,1,9.75,Ada\n2,2,,Bob\n");
    assert_snapshot!("good_jsonl", folder.run("run spec.lola events.csv --to -?select=changes -q"));
    assert_snapshot!("good_csv", folder.run("run spec.lola events.csv --to csv:-?select=changes -q"));
    assert_snapshot!(
        "good_console_changes",
        folder.run("run spec.lola events.csv --to console?select=changes")
    );
    folder.run("run spec.lola events.csv --to out.jsonl --to out.csv");
    assert_eq!(folder.read("out.jsonl").lines().count(), 1);
    assert_eq!(folder.read("out.csv").lines().count(), 2);
}

#[test]
fn files_that_are_not_there_or_empty() {
    let folder = Folder::new().file("empty.csv", "").file("header.csv", "time,id,score,name\n");
    assert_snapshot!("missing_file", folder.run("run spec.lola nowhere.csv"));
    assert_snapshot!("missing_spec", folder.run("run nowhere.lola header.csv"));
    assert_snapshot!("empty_file", folder.run("run spec.lola empty.csv"));
    assert_snapshot!("header_only", folder.run("run spec.lola header.csv"));
    assert_snapshot!("no_input", folder.run("run spec.lola"));
    assert_snapshot!("directory", folder.run("run spec.lola csv:."));
    assert_snapshot!("not_gzip", folder.file("a.csv.gz", "time,id").run("run spec.lola a.csv.gz"));
}

#[test]
fn rows_that_do_not_decode() {
    assert_snapshot!("wrong_type", on_rows("1,1,1.5,Ada\n2,two,2.5,Bob\n"));
    assert_snapshot!("out_of_range", on_rows("1,1,1.5,Ada\n2,300,2.5,Bob\n"));
    assert_snapshot!("negative", on_rows("1,-1,1.5,Ada\n"));
    assert_snapshot!("fraction", on_rows("1,1.5,1.5,Ada\n"));
    assert_snapshot!("decimal_comma", on_rows("1,1,\"12,5\",Ada\n"));
    assert_snapshot!("too_few_fields", on_rows("1,1,9.9,Ada\n2,2,2.5\n3,3,3.5,Cy\n"));
    assert_snapshot!("too_many_fields", on_rows("1,1,1.5,Ada\n2,2,2.5,Bob,surplus\n"));
    assert_snapshot!("open_quote", on_rows("1,1,1.5,Ada\n2,2,2.5,\"Bob\n3,3,3.5,Cy\n4,4,4.5,Di\n"));
    assert_snapshot!("invalid_utf8", on_rows(b"1,1,1.5,Ada\n2,2,2.5,B\xFFb\n"));
    assert_snapshot!("nan", on_rows("1,1,1.5,Ada\n2,2,NaN,Bob\n"));
    assert_snapshot!(
        "text_behind_quote",
        on_rows("1,1,1.5,Ada\n2,2,2.5,\"Bob\n3,3,3.5,\"Cy\"\n4,4,4.5,Di\n")
    );
    assert_snapshot!("carriage_returns", on_rows("1,1,9.9,Ada\r2,2,9.9,Bob\r3,x,3.5,Cy\r"));
    assert_snapshot!("too_large_float", on_rows("1,1,1e400,Ada\n"));
    assert_snapshot!("compact_date", on_rows("20240101,1,1.5,Ada\n"));
    assert_snapshot!("late_after_bad", on_rows("1,1,1.5,Ada\n2,x,2.5,Bob\n3,3,3.5,Cy\n1,4,4.5,Di\n"));
    assert_snapshot!("bad_time", on_rows("1,1,1.5,Ada\nsoon,2,2.5,Bob\n"));
    assert_snapshot!("no_time", on_rows("1,1,1.5,Ada\n,2,2.5,Bob\n"));
    assert_snapshot!("time_backwards", on_rows("1,1,1.5,Ada\n5,2,2.5,Bob\n4,3,3.5,Cy\n"));
}

#[test]
fn a_line_of_a_hundred_megabytes() {
    let mut rows = b"1,1,1.5,Ada\n2,2,2.5,".to_vec();
    rows.resize(rows.len() + 100_000_000, b'x');
    rows.extend_from_slice(b"\n3,3,9.9,Cy\n");
    let folder = Folder::new().file("events.csv", [b"time,id,score,name\n".as_slice(), &rows].concat());
    assert_snapshot!("huge_line", folder.run("run spec.lola events.csv"));
    assert_snapshot!("huge_line_skipped", folder.run("run spec.lola events.csv --on-bad-row skip"));
}

#[test]
fn bad_rows_can_be_skipped_or_listed() {
    let rows = "time,id,score,name\n1,1,1.5,Ada\n2,x,2.5,Bob\n3,3\n4,4,9.9,Di\n3.5,5,NaN,Ed\n3,6,1,Flo\n5,7,9.8,Gus\n";
    let folder = Folder::new().file("events.csv", rows);
    assert_snapshot!("skip", folder.run("run spec.lola events.csv --on-bad-row skip"));
    assert_snapshot!("list", folder.run("run spec.lola events.csv --on-bad-row file=bad.csv"));
    assert_snapshot!("list_file", folder.read("bad.csv"));
    assert_snapshot!(
        "later_than_allowed",
        folder.run("run spec.lola events.csv --on-bad-row skip --reorder 600ms")
    );
    assert_snapshot!(
        "outside_the_span",
        folder.run("run spec.lola events.csv --on-bad-row skip --since 1.5 --until 4.5")
    );
    assert_snapshot!(
        "late_rows_in_order",
        folder.run("run spec.lola events.csv --on-bad-row file=b.csv --reorder 1s --to csv:-")
    );
}

#[test]
fn columns_that_do_not_fit() {
    let folder = Folder::new()
        .file("near.csv", "time,ID,scores,nam\n1,1,1.5,Ada\n")
        .file("far.csv", "time,x,y\n1,1,1.5\n")
        .file("twice.csv", "time,id,score,name,id\n1,1,1.5,Ada,2\n")
        .file("when.csv", "date,id,score,name\n2020-01-01,1,9.9,Ada\n");
    assert_snapshot!("near_columns", folder.run("run spec.lola near.csv"));
    assert_snapshot!("unknown_columns", folder.run("run spec.lola far.csv"));
    assert_snapshot!("columns_of_several", folder.run("run spec.lola near.csv far.csv"));
    let folder = folder
        .file("part.csv", "time,id,score\n1,1,9.9\n2,2,9.8\n")
        .file("names.csv", "id,name\n1,Ada\n3,Bob\n")
        .file("names.jsonl", "{\"person\":1,\"name\":\"Ada\"}\n");
    assert_snapshot!("joined", folder.run("run spec.lola part.csv names.csv?join=id"));
    assert_snapshot!("joined_check", folder.run("check spec.lola part.csv names.jsonl?join=id:person"));
    assert_snapshot!("joined_by_nothing", folder.run("run spec.lola part.csv names.jsonl?join=person"));
    assert_snapshot!("only_joined", folder.run("run spec.lola names.csv?join=id"));
    assert_snapshot!("column_twice", folder.run("run spec.lola twice.csv"));
    let folder = folder
        .file("unread.csv", "time,x,id ,x, score,name\n1,a,1,b,9.9,Ada\n")
        .file("headless.csv", "1,1,9.9,Ada\n2,2,x,Bob\n");
    assert_snapshot!("unread_column_twice", folder.run("run spec.lola unread.csv"));
    assert_snapshot!(
        "no_header",
        folder.run("run spec.lola headless.csv?header=false&columns=id:c2,score:c3,name:c4 --time c1")
    );
    assert_snapshot!("rows_in_their_order", folder.run("run spec.lola when.csv --time row"));
    assert_snapshot!("no_time_column", folder.run("run spec.lola when.csv"));
    assert_snapshot!("time_column_named", folder.run("run spec.lola when.csv --time date"));
    assert_snapshot!("time_column_option", folder.run("run spec.lola when.csv?time=date&time_format=date"));
    let folder = folder.file("semicolons.csv", "time;id;score;name\n1;1;1.5;Ada\n");
    assert_snapshot!("wrong_delimiter", folder.run("run spec.lola semicolons.csv"));
    assert_snapshot!("time_format_wrong", folder.run("run spec.lola when.csv --time date --time-format ms"));
}

#[test]
fn engines() {
    let ticks = "input id : Int64\noutput ticks(i)\n  spawn with id\n  eval @Global(1s) with ticks(i).last(or: 0) + 1\n  \
        close when ticks(i) = 2\ntrigger @1s ticks.aggregate(over_instances: all, using: count) > 0 \"open\"\n";
    let folder = Folder::new()
        .file("ticks.lola", ticks)
        .file("area.lola", "input a : Float64\noutput b @1s := a.aggregate(over: 5s, using: integral)\n")
        .file("parts.lola", "input a : Int64\ninput b : Int64\noutput c : Int8 @a := cast<Int64, Int8>(a) / 2\ntrigger a / b > 1 \"more\"\n")
        .file("ids.csv", "time,id\n0,7\n4,8\n")
        .file("pairs.csv", "time,a,b\n1,8,2\n2,300,1\n")
        .file("zero.csv", "time,a,b\n1,8,2\n2,3,0\n");
    assert_snapshot!("engine_compiled", folder.run("run ticks.lola ids.csv"));
    assert_snapshot!("engine_reference", folder.run("run ticks.lola ids.csv --engine reference"));
    assert_snapshot!("engine_verify", folder.run("run ticks.lola ids.csv --verify"));
    assert_snapshot!("engine_reference_refuses", folder.run("run area.lola pairs.csv --engine reference"));
    assert_snapshot!("engine_range", folder.run("run parts.lola pairs.csv"));
    assert_snapshot!("engine_division", folder.run("run parts.lola zero.csv"));
    assert_snapshot!("engine_plan", folder.run("check ticks.lola --plan"));
}

#[test]
fn specifications_that_are_not() {
    let bad = |name: &str, spec: &[u8]| {
        let folder = Folder::new().file("events.csv", "time,a\n1,0\n2,0\n").file(name, spec);
        folder.run(&format!("run {name} events.csv"))
    };
    assert_snapshot!("spec_syntax", bad("bad.lola", b"input a : Int64\noutput := a +\n"));
    assert_snapshot!(
        "spec_unknown_name",
        bad("bad.lola", "// ∧ is two bytes more\ninput a : Int64\noutput b := a + c\n".as_bytes())
    );
    assert_snapshot!("spec_types", bad("bad.lola", b"input a : Int64\noutput b := a + \"x\"\n"));
    assert_snapshot!("spec_tuple_input", bad("bad.lola", b"input a : (Int64, Bool?)\n"));
    assert_snapshot!("spec_not_utf8", bad("bad.lola", b"input \xFF : Int64\n"));
    assert_snapshot!("spec_too_fast", bad("bad.lola", b"input a : Int64\noutput b @2GHz := 1\n"));
    assert_snapshot!("spec_very_slow", bad("slow.lola", b"input a : Int64\noutput b @0.0000000001Hz := 1\n"));
    assert_snapshot!(
        "spec_integral",
        bad("bad.lola", b"input a : Float64\noutput b @1s := a.aggregate(over: 5s, using: integral)\n")
    );
    assert_snapshot!(
        "spec_order",
        bad("bad.lola", b"input a : Bool\ninput b : Bool\noutput earlier := a < b\n")
    );
    assert_snapshot!(
        "spec_regex",
        bad("bad.lola", b"import regex\ninput a : String\ntrigger a.matches(regex: \"(\")\n")
    );
    let deep = format!("input a : Int64\ntrigger a{} > 5\n", " + 1".repeat(200));
    let deep = bad("deep.lola", deep.as_bytes());
    assert!(deep.ends_with("exit code 1\n"), "{deep}");
    assert_snapshot!("spec_toml", bad("fair.toml", b"name = \"x\"\n"));
    assert_snapshot!("spec_toml_not_utf8", bad("fair.toml", b"name = \"\xFF\"\n"));
    assert_snapshot!("spec_divides_by_zero", bad("zero.lola", b"input a : Int64\noutput b := 1 / a\n"));
    assert_snapshot!(
        "spec_deadline_fails",
        bad("zero.lola", b"input a : Int64\noutput b @1Hz := 1 / a.hold(or: 0)\n")
    );
}

#[test]
fn arguments_that_do_not_fit() {
    let folder = Folder::new().file("events.csv", "time,id,score,name\n1,1,1.5,Ada\n").file("events.dat", "");
    assert_snapshot!("unknown_ending", folder.run("run spec.lola events.dat"));
    assert_snapshot!("unknown_kind", folder.run("run spec.lola cvs:events.csv"));
    assert_snapshot!("unknown_option", folder.run("run spec.lola events.csv?delimeter=;"));
    assert_snapshot!("bad_option", folder.run("run spec.lola events.csv?delimiter=long"));
    assert_snapshot!("bad_select", folder.run("run spec.lola events.csv --to -?select=all"));
    assert_snapshot!("sink_in_no_folder", folder.run("run spec.lola events.csv --to no/such/out.jsonl"));
    assert_snapshot!("sink_is_input", folder.run("run spec.lola events.csv --to events.csv"));
    assert_snapshot!("bad_duration", folder.run("run spec.lola events.csv --reorder 10"));
    assert_snapshot!("bad_policy", folder.run("run spec.lola events.csv --on-bad-row ignore"));
    assert_snapshot!("since_after_until", folder.run("run spec.lola events.csv --since 9 --until 3"));
    assert_snapshot!("stdin_with_options", folder.run("run spec.lola -?columns=id:a%2Cb -q"));
    assert_snapshot!("misspelt_flag", folder.run("run spec.lola events.csv --quiett"));
    assert_snapshot!("stdin_twice", folder.run("run spec.lola csv:- csv:-"));
    assert_snapshot!("stdout_twice", folder.run("run spec.lola events.csv --to - --to console"));
    assert_snapshot!("sink_twice", folder.run("run spec.lola events.csv --to new.csv --to jsonl:./new.csv"));
    assert_snapshot!(
        "bad_rows_to_input",
        folder.run("run spec.lola events.csv --on-bad-row file=events.csv")
    );
    assert_snapshot!("sink_is_spec", folder.run("run spec.lola events.csv --to jsonl:spec.lola"));
    std::fs::hard_link(folder.0.path().join("events.csv"), folder.0.path().join("link.csv")).unwrap();
    assert_snapshot!("sink_is_link_to_input", folder.run("run spec.lola events.csv --to link.csv"));
    assert_eq!(folder.read("events.csv"), "time,id,score,name\n1,1,1.5,Ada\n", "the input is as it was");
    assert_eq!(folder.read("spec.lola"), SPEC, "the specification is as it was");
    // A run that does not start leaves the verdicts of an earlier one unchanged.
    let folder = folder
        .file("keep.jsonl", "precious")
        .file("regex.lola", "import regex\ninput name : String\ntrigger name.matches(regex: \"(\")\n");
    for rest in [
        "spec.lola events.csv --to bad.xyz",
        "spec.lola events.csv --to no/such/x.csv",
        "spec.lola events.csv --to console?show=foo",
        "spec.lola nowhere.csv",
        "regex.lola events.csv",
    ] {
        let output = folder.run(&format!("run {rest} --to keep.jsonl"));
        assert!(output.contains("exit code 2"), "{output}");
        assert_eq!(folder.read("keep.jsonl"), "precious", "{rest}");
    }
}

#[test]
fn check_and_adapters() {
    let folder = Folder::new().file("events.csv", "time,id,score,name\n");
    assert_snapshot!("check", folder.run("check spec.lola events.csv"));
    assert_snapshot!(
        "check_mismatch",
        folder.file("other.csv", "time,id\n").run("check spec.lola other.csv")
    );
    assert_snapshot!("adapters", Folder::new().run("adapters"));
    assert_snapshot!("help", Folder::new().run("--help"));
    assert_snapshot!("help_run", Folder::new().run("run --help"));
    let completions = Folder::new().run("completions bash");
    assert!(completions.contains("complete -F _fairstream"), "{completions}");
}

/// A fairness file for rows `time,id,gender,place,hired,score`, without types: they are inferred from the data.
const FAIR: &str = r#"name = "hires"
[trial]
key = "id"
group = "gender"
[indicators]
hired = "hired"
[[fairness]]
metric = "demographic-parity"
decision = "hired"
tolerance = 0.2
rule = "map"
confidence = 0
min_trials = 2
[[fairness]]
metric = "mean-difference"
of = "score"
strata = "place"
tolerance = 1
rule = "map"
"#;

fn fair() -> Folder {
    let rows = "time,id,gender,place,hired,score\n1,1,F,north,false,3\n2,2,M,north,true,5\n3,3,F,south,false,2.5\n\
        4,4,M,north,true,4\n5,5,F,north,true,9\n6,6,F,north,true,3\n7,7,X,south,,\n8,8,F,north,true,\n9,9,F,north,true,1\n";
    Folder::new().file("fair.toml", FAIR).file("events.csv", rows)
}

#[test]
fn fairness_files() {
    let folder = fair();
    assert_snapshot!("fair_run", folder.run("run fair.toml events.csv"));
    assert_snapshot!("fair_run_reference", folder.run("run fair.toml events.csv --engine reference -q"));
    assert_snapshot!(
        "fair_run_verify",
        folder.run("run fair.toml events.csv --verify -q --to -?select=alarms")
    );
    assert_snapshot!("fair_run_csv", folder.run("run fair.toml events.csv -q --to csv:-"));
    assert_snapshot!(
        "fair_run_triggers",
        folder.run("run fair.toml events.csv -q --to console?select=triggers")
    );
    assert_snapshot!("fair_check", folder.run("check fair.toml events.csv"));
    assert_snapshot!("fair_check_alone", folder.run("check fair.toml"));
    assert_snapshot!("fair_compile_alone", folder.run("compile fair.toml"));
    assert!(folder.run("compile fair.toml events.csv").contains("input gender : String"));
    assert_snapshot!("fair_compile_rtlola", folder.run("compile spec.lola"));
    assert_snapshot!(
        "fair_other_data",
        Folder::new()
            .file("fair.toml", FAIR)
            .file("a.csv", "time,id,sex\n1,1,F\n")
            .run("run fair.toml a.csv")
    );
    assert_snapshot!("fair_pipe_needs_types", folder.run("run fair.toml csv:-"));
    assert_snapshot!("fair_no_input", folder.run("check fair.toml nowhere.csv"));
    for name in ["hiring", "seminar", "compas", "admissions"] {
        let path = crate::support::root().join(format!("specs/{name}.toml"));
        let folder = Folder::new().file("spec.toml", std::fs::read(path).unwrap());
        assert_snapshot!(format!("fair_check_{name}"), folder.run("check spec.toml"));
    }
}

#[test]
fn a_fairness_file_can_be_a_whole_deployment() {
    let folder = fair();
    std::fs::create_dir(folder.0.path().join("below")).unwrap();
    let whole = format!(
        "{FAIR}\n[[source]]\npath = \"../events.csv\"\n[[sink]]\npath = \"alarms.jsonl\"\nselect = \"alarms\"\n\
         [[sink]]\npath = \"console\"\n"
    );
    let folder = folder.file("below/fair.toml", whole);
    assert_snapshot!("fair_deployment", folder.run("run below/fair.toml --trust below/fair.toml"));
    assert_snapshot!("fair_deployment_alarms", folder.read("below/alarms.jsonl"));
    assert!(
        folder.run("run below/fair.toml --trust below/fair.toml --to out.csv -q").ends_with("exit code 1\n")
    );
    assert!(folder.read("out.csv").contains("alarm,demographic_parity"));
    let bad = |from: &str, to: &str| {
        let text = folder.read("below/fair.toml").replace(from, to);
        fair().file("bad.toml", text.replace("../", "")).run("run bad.toml")
    };
    assert_snapshot!(
        "fair_bad_source_option",
        bad("[[sink]]\npath = \"alarms", "delimeter = \";\"\n[[sink]]\npath = \"alarms")
    );
    assert_snapshot!("fair_bad_sink_kind", bad("alarms.jsonl", "alarms.xyz"));
    assert_snapshot!("fair_sink_is_source", bad("alarms.jsonl", "events.csv"));
}

/// Rows without times, and groups in a table beside them that has a column `row`.
#[test]
fn a_fairness_file_joins_tables_and_takes_rows_in_their_order() {
    let file = r#"[events]
time = "row"
[trial]
key = "id"
group = "gender"
[indicators]
hired = "hired"
[[fairness]]
metric = "demographic-parity"
decision = "hired"
tolerance = 0.1
rule = "map"
[[source]]
path = "decisions.csv"
[[source]]
path = "people.csv"
join = "id"
"#;
    let folder = Folder::new()
        .file("decisions.csv", "id,hired\n1,true\n2,false\n3,true\n4,false\n5,true\n6,false\n")
        .file("people.csv", "id,gender,row\n1,F,a\n2,M,b\n3,F,c\n4,M,d\n5,F,e\n")
        .file("joined.toml", file)
        .file("dated.toml", file.replace("\"row\"", "\"when\"\ntime_format = \"%d.%m.%Y\""))
        .file("dated.csv", "when,id,hired\n1.3.2026,1,true\n31.3.2026,2,false\n");
    assert_snapshot!("fair_joined", folder.run("run joined.toml"));
    assert_snapshot!("fair_joined_check", folder.run("check joined.toml"));
    let folder = folder
        .file("slashes.csv", "when,id,hired\n03/01/2026,1,true\n04/01/2026,2,false\n")
        .file("untimed.toml", file.replace("\"row\"", "\"when\""));
    assert_snapshot!("fair_time_unknown", folder.run("run untimed.toml slashes.csv people.csv?join=id"));
    assert_snapshot!(
        "fair_time_format",
        folder.run("run untimed.toml slashes.csv people.csv?join=id --time-format %d/%m/%Y -q")
    );
    assert_snapshot!("init_time_unknown", folder.run("init slashes.csv --time when"));
    assert_snapshot!("fair_time_pattern", folder.run("run dated.toml dated.csv people.csv?join=id"));
}

#[test]
fn a_fairness_file_is_proposed() {
    let folder = fair()
        .file("no.csv", "time,a\n1,2\n")
        .file("when.csv", "date,id,sex,hired\n2020-01-01,1,F,0\n2020-01-02,2,M,1\n");
    assert_snapshot!("init", folder.run("init events.csv"));
    assert_snapshot!("init_date", folder.run("init when.csv"));
    assert_snapshot!("init_nothing", folder.run("init no.csv"));
    assert_snapshot!("init_missing", folder.run("init nowhere.csv"));
    assert_snapshot!("init_no_time", folder.run("init when.csv --time when"));
    assert_snapshot!("init_to", folder.run("init events.csv --to new.toml"));
    assert_snapshot!("init_to_again", folder.run("init events.csv --to new.toml"));
    for data in ["events.csv", "when.csv"] {
        let proposal = folder.run(&format!("init {data}"));
        let toml = proposal
            .split("\n---- standard error")
            .next()
            .unwrap()
            .lines()
            .skip(1)
            .collect::<Vec<_>>()
            .join("\n");
        std::fs::write(folder.0.path().join("proposed.toml"), toml).unwrap();
        for command in ["check", "run"] {
            let output = folder.run(&format!("{command} proposed.toml {data}"));
            assert!(!output.contains("exit code 2"), "{output}");
        }
    }
}

#[test]
fn compressed_and_separated_input_is_the_same() {
    let rows = "time,id,score,name\n1,1,9.75,\"A;b\tc\"\n2,2,9.9,Bob\n";
    let plain = Folder::new().file("a.csv", rows);
    let expected = plain.run("run spec.lola a.csv --to -?select=changes").replace("a.csv", "INPUT");
    let semicolons = rows.replace(',', ";");
    assert_eq!(expected.matches(r#""kind":"trigger""#).count(), 2, "{expected}");
    for (name, content, argument) in [
        ("a.csv.zst", zstd::encode_all(rows.as_bytes(), 3).unwrap(), "a.csv.zst"),
        ("A.CSV.ZST", zstd::encode_all(rows.as_bytes(), 3).unwrap(), "A.CSV.ZST"),
        ("A.TSV", rows.replace(',', "\t").into_bytes(), "A.TSV"),
        ("a.tsv", rows.replace(',', "\t").into_bytes(), "a.tsv"),
        ("b.csv", semicolons.into_bytes(), "b.csv?delimiter=;"),
        ("c.csv", rows.replace('\n', "\r\n").into_bytes(), "c.csv"),
        ("d.csv", [b"\xEF\xBB\xBF", rows.as_bytes()].concat(), "d.csv"),
    ] {
        let found =
            Folder::new().file(name, content).run(&format!("run spec.lola {argument} --to -?select=changes"));
        assert_eq!(found.replace(argument, "INPUT"), expected, "{name}");
    }
}
