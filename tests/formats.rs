//! The same events in every format give the same verdicts.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use fairstream_core::{
    EventBatch, EventWriterFactory, EventWriterRequest, Options, Position, RunOptions, Selection, Source,
    SourceContext, SourceFactory, SourceRequest, Time, TimeFormat,
};
use fairstream_csv::{CsvEventWriters, CsvSources};
use fairstream_engine::Specification;
use fairstream_files::Sorted;
use fairstream_json::{JsonEventWriters, JsonSources};
use fairstream_parquet::{ArrowEventWriters, ArrowSources, ParquetEventWriters, ParquetSources};
use proptest::prelude::*;

use crate::support::{Collect, run};

const SPEC: &str = r#"
input user : UInt64
input value : Int64
input ratio : Float64
input flag : Bool
input word : String
output words := word
output flags := flag
output amount(u)
  spawn with user
  eval @user∧value when user = u with amount(u).last(or: 0) + value
  close @flag when flag ∧ amount(u).hold(or: 0) > 5
output ratios := ratios.last(or: 0.0) + ratio
output recent @1Hz := value.aggregate(over: 3s, using: sum)
trigger @1Hz recent > 6 "busy"
trigger ratios > 2.0 "much"
"#;

#[derive(Clone, Debug)]
struct Event {
    /// In milliseconds.
    time: i64,
    user: Option<u64>,
    value: Option<i64>,
    ratio: Option<f64>,
    flag: Option<bool>,
    word: Option<String>,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let user = prop_oneof![0..4_u64, Just(u64::MAX)];
    let value = prop_oneof![-3..9_i64, Just(1 << 40)];
    let ratio = prop_oneof![-2.0..2.0, Just(0.1), Just(1e-300)];
    let event = (
        0..800_i64,
        prop::option::of(user),
        prop::option::of(value),
        prop::option::of(ratio),
        prop::option::of(any::<bool>()),
        prop::option::of("[a-z,\"\n é🙂]{1,5}"),
    );
    prop::collection::vec(event, 1..40).prop_map(|steps| {
        let mut time = 0;
        let next = |(step, user, value, ratio, flag, word)| {
            time += step;
            Event { time, user, value, ratio, flag, word }
        };
        steps.into_iter().map(next).collect()
    })
}

/// The events in batches of that many rows, from `start` on.
fn batches(events: &[Event], size: usize, start: i64) -> Vec<EventBatch> {
    let batch = |events: &[Event]| {
        let columns: [(&str, ArrayRef); 5] = [
            ("user", Arc::new(events.iter().map(|event| event.user).collect::<UInt64Array>())),
            ("value", Arc::new(events.iter().map(|event| event.value).collect::<Int64Array>())),
            ("ratio", Arc::new(events.iter().map(|event| event.ratio).collect::<Float64Array>())),
            ("flag", Arc::new(events.iter().map(|event| event.flag).collect::<BooleanArray>())),
            ("word", Arc::new(events.iter().map(|event| event.word.as_deref()).collect::<StringArray>())),
        ];
        let rows =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)));
        let times: Vec<i64> = events.iter().map(|event| start + event.time * 1_000_000).collect();
        let numbers: Vec<u64> = (1..=events.len() as u64).collect();
        EventBatch::new(rows.unwrap(), times, numbers, Position::default())
    };
    events.chunks(size).map(batch).collect()
}

fn write(
    factory: &dyn EventWriterFactory,
    path: &Path,
    options: &Options,
    time_format: TimeFormat,
    batches: &[EventBatch],
) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let request = EventWriterRequest {
        location: path.to_str().unwrap().to_owned(),
        options: options.clone(),
        schema: batches[0].rows.schema(),
        time_format,
        resume: None,
    };
    let mut writer = factory.open(&request).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
}

fn verdicts(factory: &dyn SourceFactory, path: &Path, max_rows: usize, sort: bool) -> Vec<String> {
    let spec = Specification::parse("spec", SPEC).unwrap();
    let context =
        SourceContext { max_rows: NonZeroUsize::new(max_rows).unwrap(), ..SourceContext::default() };
    let options: Options = [("sort", "true")].into_iter().filter(|_| sort).collect();
    let request = SourceRequest {
        location: path.to_str().unwrap().to_owned(),
        wanted: spec.wanted().to_vec(),
        context: context.clone(),
        options,
        ..SourceRequest::default()
    };
    let mut source: Box<dyn Source> = factory.open(&request).unwrap();
    if sort {
        source = Box::new(Sorted::new(source, context, None).unwrap());
    }
    let collect = Collect::new(Selection::Changes);
    let report = run(&spec, vec![source], vec![Box::new(collect.clone())], RunOptions::default());
    assert!(report.error.is_none(), "{:?}", report.error);
    collect.lines()
}

/// Tuples are supported wherever other values are: sorted, merged with an input without tuples, in every format.
#[test]
fn tuples_are_the_same_in_every_format() {
    const TUPLES: &str = "
input at : (UInt8, (String, Float64))
input n : Int64
output first := at.0
output ats @n := at.hold(or: (0, (\"\", 0.0)))
output seen(name, part)
  spawn with (at.1, at.0)
  eval @at when at.1 = name with seen(name, part).last(or: 0) + 1
trigger at.1 = (\"b\", 0.5) \"found\"";
    let spec = Specification::parse("tuples", TUPLES).unwrap();
    let wanted = spec.wanted().to_vec();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let text: String = (0..40)
        .map(|row| {
            let (name, half) = (["a", "b", "c"][row % 3], row % 2);
            match row % 5 {
                4 => format!("{{\"time\":{row},\"n\":{row}}}\n"),
                _ => format!("{{\"time\":{row},\"at\":[{},[\"{name}\",{half}.5]]}}\n", row % 4),
            }
        })
        .collect();
    std::fs::write(at("a.jsonl"), &text).unwrap();
    let request = |path: &Path, rows: usize| SourceRequest {
        location: path.to_str().unwrap().to_owned(),
        wanted: wanted.clone(),
        context: SourceContext { max_rows: NonZeroUsize::new(rows).unwrap(), ..SourceContext::default() },
        ..SourceRequest::default()
    };
    let open = |factory: &dyn SourceFactory, name: &str, rows: usize| {
        factory.open(&request(&at(name), rows)).unwrap()
    };
    let verdicts_of = |sources: Vec<Box<dyn Source>>| {
        let collect = Collect::new(Selection::Changes);
        let report = run(&spec, sources, vec![Box::new(collect.clone())], RunOptions::default());
        assert!(report.error.is_none(), "{:?}", report.error);
        collect.lines()
    };
    let mut batches = Vec::new();
    let mut source = open(&JsonSources, "a.jsonl", 7);
    while let Some(batch) = source.next_batch().unwrap() {
        batches.push(batch);
    }
    let (none, relative) = (Options::default(), TimeFormat::Relative);
    write(&ParquetEventWriters, &at("a.parquet"), &none, relative.clone(), &batches);
    write(&ArrowEventWriters, &at("a.arrow"), &none, relative.clone(), &batches);
    let expected = verdicts_of(vec![open(&JsonSources, "a.jsonl", 8192)]);
    assert!(expected.iter().filter(|line| line.contains("! found")).count() > 2, "{expected:#?}");
    for rows in [1, 3, 8192] {
        assert_eq!(
            verdicts_of(vec![open(&JsonSources, "a.jsonl", rows)]),
            expected,
            "JSON in batches of {rows}"
        );
        assert_eq!(
            verdicts_of(vec![open(&ParquetSources, "a.parquet", rows)]),
            expected,
            "Parquet in batches of {rows}"
        );
        assert_eq!(
            verdicts_of(vec![open(&ArrowSources, "a.arrow", rows)]),
            expected,
            "Arrow in batches of {rows}"
        );
        let sorted =
            Sorted::with_memory(open(&ArrowSources, "a.arrow", rows), SourceContext::default(), None, 64)
                .unwrap();
        assert_eq!(verdicts_of(vec![Box::new(sorted)]), expected, "sorted, in batches of {rows}");
    }
    // The rows with a number are in a file without tuples.
    let (numbers, tuples): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.contains("\"n\""));
    std::fs::write(at("tuples.jsonl"), tuples.join("\n")).unwrap();
    let csv = numbers.iter().map(|line| {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        format!("{},{}\n", json["time"], json["n"])
    });
    std::fs::write(at("numbers.csv"), "time,n\n".to_owned() + &csv.collect::<String>()).unwrap();
    let merged = vec![open(&JsonSources, "tuples.jsonl", 3), open(&CsvSources, "numbers.csv", 2)];
    assert_eq!(verdicts_of(merged), expected, "merged");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_format_gives_the_same_verdicts(
        events in events(),
        written in 1..50_usize,
        read in 1..50_usize,
        group in 1..20_usize,
        relative in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let (format, start) = if relative {
            (TimeFormat::Relative, Time(0))
        } else {
            (TimeFormat::Rfc3339, "2026-11-16T09:30:00.25Z".parse().unwrap())
        };
        let batches = batches(&events, written, start.0);
        let none = Options::default();
        write(&CsvEventWriters, &at("a.csv"), &none, format.clone(), &batches);
        write(&JsonEventWriters, &at("a.jsonl"), &none, format.clone(), &batches);
        let expected = verdicts(&CsvSources, &at("a.csv"), 8192, false);
        prop_assert_eq!(&verdicts(&JsonSources, &at("a.jsonl"), read, false), &expected, "JSON lines");
        for codec in ["none", "snappy", "zstd", "gzip", "lz4"] {
            let group = group.to_string();
            let options = [("codec", codec), ("row_group", &group)].into_iter().collect();
            write(&ParquetEventWriters, &at("a.parquet"), &options, format.clone(), &batches);
            prop_assert_eq!(&verdicts(&ParquetSources, &at("a.parquet"), read, false), &expected, "Parquet {}", codec);
        }
        for name in ["a.arrow", "a.arrows"] {
            for codec in ["none", "zstd", "lz4"] {
                let options = [("codec", codec)].into_iter().collect();
                write(&ArrowEventWriters, &at(name), &options, format.clone(), &batches);
                prop_assert_eq!(&verdicts(&ArrowSources, &at(name), read, false), &expected, "{} {}", name, codec);
            }
        }
        prop_assert_eq!(&verdicts(&ArrowSources, &at("a.arrow"), read, true), &expected, "sorted");
    }

    /// Rows are distributed to files alternately, so that files overlap, or one file after another. Times are
    /// distinct, as the order of files matters for equal times.
    #[test]
    fn files_of_a_lake_are_merged_by_time(
        mut events in events(),
        files in 1..6_usize,
        stretch in 1..20_usize,
        read in 1..50_usize,
        group in 1..20_usize,
    ) {
        events.iter_mut().zip(0..).for_each(|(event, index)| event.time += index);
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().join("whole.parquet");
        let options = [("row_group", group.to_string())].into_iter().collect();
        write(&ParquetEventWriters, &whole, &options, TimeFormat::Rfc3339, &batches(&events, 8192, 0));
        let expected = verdicts(&ParquetSources, &whole, 8192, false);
        let lake = dir.path().join("lake");
        for file in 0..files {
            let own = |index: usize| index / stretch % files == file;
            let own: Vec<Event> =
                (0..events.len()).filter(|index| own(*index)).map(|index| events[index].clone()).collect();
            if !own.is_empty() {
                let path = lake.join(format!("part={file}/{file}.parquet"));
                write(&ParquetEventWriters, &path, &options, TimeFormat::Rfc3339, &batches(&own, 8192, 0));
            }
        }
        for sort in [false, true] {
            prop_assert_eq!(&verdicts(&ParquetSources, &lake, read, sort), &expected, "sort: {}", sort);
        }
    }
}
