//! Tests of the contract of sinks.

use crate::{
    RunEnd, Selection, Sink, SinkFactory, SinkRequest, Time, Value, VerdictBatch, VerdictBatcher, VerdictSink,
};

/// An output to test a kind of sink with.
pub struct SinkCase<'a> {
    /// The kind of sink.
    pub factory: &'a dyn SinkFactory,
    /// The output: a file that need not exist. The suite overwrites `select` and `resume`.
    pub request: SinkRequest,
    /// Whether what was written can be read before the sink is finished.
    pub readable_while_open: bool,
    /// A location that cannot be written.
    pub forbidden: SinkRequest,
    /// Reads the verdicts at a location, each as text.
    pub read: &'a dyn Fn(&str) -> Vec<String>,
}

/// Tests the contract of [`Sink`] on a kind of sink.
///
/// # Panics
/// If the contract is broken.
pub fn check_sink(case: &SinkCase<'_>) {
    let whole = write(case, 1000, &RunEnd::Complete);
    assert_eq!(whole.len(), total(), "every verdict is written");
    same_output_whatever_the_batch_size(case, &whole);
    if case.readable_while_open {
        what_is_written_is_seen(case, &whole);
    }
    position_restores_to_the_next_verdict(case, &whole);
    a_failed_run_keeps_what_it_has(case, &whole);
    an_empty_run_can_be_read(case);
    opening_destroys_nothing(case, &whole);
    errors_name_the_output(case);
}

/// Verdicts of every kind and type, with texts that are hard to write, in batches of that size.
pub fn sample_verdicts(max_rows: usize) -> Vec<VerdictBatch> {
    let streams = ["amount".to_owned(), "trigger_0".to_owned()];
    let mut batcher = VerdictBatcher::new(&streams, max_rows, Vec::new());
    let verdicts: &mut dyn VerdictSink = &mut batcher;
    let texts = ["plain", "", "comma, \"quote\"", "two\nlines", "Ünïcödé ∧ 🙂", "back\\slash\ttab"];
    let mut time = 0;
    for (index, text) in texts.iter().enumerate() {
        let instance = format!("[{index},\"a,\\\"b\"]");
        let values = [
            Value::Bool(index.is_multiple_of(2)),
            Value::Int(i64::MIN),
            Value::UInt(u64::MAX),
            Value::Float(0.1),
            Value::Float(f64::INFINITY),
            Value::Text(text),
            Value::Json("[1,\"x\"]"),
        ];
        verdicts.spawn(Time(time), 0, &instance).expect("a vector takes every batch");
        for value in values {
            time += 1_000_000_007;
            verdicts.value(Time(time), 0, Some(&instance), value).expect("a vector takes every batch");
        }
        verdicts.trigger(Time(time), 1, None, text).expect("a vector takes every batch");
        verdicts.close(Time(time), 0, &instance).expect("a vector takes every batch");
        let details = r#"{"groups":[],"tolerance":0.1}"#;
        verdicts
            .alarm(Time(time), 1, Some(&instance), 0.25, text, details)
            .expect("a vector takes every batch");
        verdicts.clear(Time(time), 1, None, 0.05, text, details).expect("a vector takes every batch");
    }
    batcher.drain()
}

fn total() -> usize {
    sample_verdicts(1000).iter().map(VerdictBatch::len).sum()
}

fn open(case: &SinkCase<'_>) -> Box<dyn Sink> {
    let request = SinkRequest { select: Selection::Changes, resume: None, ..case.request.clone() };
    let sink = case.factory.open(&request).unwrap_or_else(|error| panic!("it must open, but: {error}"));
    assert_eq!(sink.wants(), Selection::Changes, "it wants what the user selected");
    assert!(!sink.name().is_empty(), "it has a name");
    sink
}

fn read(case: &SinkCase<'_>) -> Vec<String> {
    (case.read)(&case.request.location)
}

fn write(case: &SinkCase<'_>, max_rows: usize, end: &RunEnd) -> Vec<String> {
    let mut sink = open(case);
    for batch in sample_verdicts(max_rows) {
        sink.write(&batch).expect("it must write");
    }
    sink.finish(end).expect("it must finish");
    read(case)
}

fn same_output_whatever_the_batch_size(case: &SinkCase<'_>, whole: &[String]) {
    for max_rows in [1, 2, 7] {
        assert_eq!(
            write(case, max_rows, &RunEnd::Complete),
            whole,
            "the same output in batches of {max_rows}"
        );
    }
}

fn what_is_written_is_seen(case: &SinkCase<'_>, whole: &[String]) {
    let mut sink = open(case);
    let mut written = 0;
    for batch in sample_verdicts(5) {
        sink.write(&batch).expect("it must write");
        written += batch.len();
        assert_eq!(read(case), whole[..written], "a reader sees what was written");
    }
}

fn position_restores_to_the_next_verdict(case: &SinkCase<'_>, whole: &[String]) {
    let batches = sample_verdicts(9);
    for kept in 0..batches.len() {
        let mut sink = open(case);
        for batch in &batches[..kept] {
            sink.write(batch).expect("it must write");
        }
        let Some(position) = sink.flush().expect("it must flush") else { return };
        let rows: usize = batches[..kept].iter().map(VerdictBatch::len).sum();
        assert_eq!(position.rows, rows as u64, "a position counts every verdict before it");
        sink.write(&batches[kept]).expect("it must write");
        // Simulates a crash: what was written after the position is unreliable.
        drop(sink);
        let request =
            SinkRequest { select: Selection::Changes, resume: Some(position), ..case.request.clone() };
        let mut sink = case.factory.open(&request).expect("it must open where it was");
        for batch in &batches[kept..] {
            sink.write(batch).expect("it must write");
        }
        sink.finish(&RunEnd::Complete).expect("it must finish");
        assert_eq!(read(case), whole, "the same output, whether resumed after {rows} verdicts or not");
    }
}

fn a_failed_run_keeps_what_it_has(case: &SinkCase<'_>, whole: &[String]) {
    for end in [RunEnd::Stopped, RunEnd::Failed("the source broke off".to_owned())] {
        assert_eq!(write(case, 4, &end), whole, "everything is there after {end:?}");
    }
}

fn an_empty_run_can_be_read(case: &SinkCase<'_>) {
    open(case).finish(&RunEnd::Complete).expect("it must finish");
    assert_eq!(read(case), Vec::<String>::new(), "no verdicts");
}

fn opening_destroys_nothing(case: &SinkCase<'_>, whole: &[String]) {
    write(case, 1000, &RunEnd::Complete);
    drop(open(case));
    assert_eq!(read(case), whole, "a run that does not start leaves what was there");
}

fn errors_name_the_output(case: &SinkCase<'_>) {
    let error = match case.factory.open(&case.forbidden) {
        Ok(_) => panic!("it cannot be opened"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains(&case.forbidden.location), "the error names the output: {error}");
}
