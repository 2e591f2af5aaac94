//! The JSON-lines sink fulfils the contract of `Sink`, and its lines have the content of the verdicts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use fairstream_core::compliance::{SinkCase, check_sink, sample_verdicts};
use fairstream_core::{RunEnd, Selection, SinkFactory, SinkRequest, Value};
use fairstream_json::JsonSinks;

fn lines(path: &str) -> Vec<String> {
    std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn sink_complies() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("verdicts.jsonl").to_str().unwrap().to_owned();
    check_sink(&SinkCase {
        factory: &JsonSinks,
        request: SinkRequest { location, ..SinkRequest::default() },
        readable_while_open: true,
        forbidden: SinkRequest {
            location: "/no/such/place/verdicts.jsonl".to_owned(),
            ..SinkRequest::default()
        },
        read: &lines,
    });
}

#[test]
fn every_line_is_the_verdict_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let location = dir.path().join("verdicts.jsonl").to_str().unwrap().to_owned();
    let request =
        SinkRequest { location: location.clone(), select: Selection::Changes, ..SinkRequest::default() };
    let mut sink = JsonSinks.open(&request).unwrap();
    let batches = sample_verdicts(1000);
    sink.write(&batches[0]).unwrap();
    sink.finish(&RunEnd::Complete).unwrap();
    let lines = lines(&location);
    assert_eq!(lines.len(), batches[0].len());
    for (line, verdict) in lines.iter().zip(batches[0].iter()) {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(json["time"], verdict.time.to_string());
        assert_eq!(json["kind"], verdict.kind.name());
        assert_eq!(json["stream"], verdict.stream);
        assert_eq!(json["message"].as_str(), verdict.message);
        assert_eq!(json["instance"].is_array(), verdict.instance.is_some());
        let details = json.get("details").map(serde_json::Value::to_string);
        assert_eq!(details.as_deref(), verdict.details);
        match verdict.value {
            None => assert!(json["value"].is_null()),
            Some(Value::Bool(value)) => assert_eq!(json["value"], value),
            Some(Value::Int(value)) => assert_eq!(json["value"], value),
            Some(Value::UInt(value)) => assert_eq!(json["value"], value),
            Some(Value::Float(value)) if value.is_finite() => assert_eq!(json["value"], value),
            Some(Value::Float(_)) => assert_eq!(json["value"], "inf"),
            Some(Value::Text(value)) => assert_eq!(json["value"], value),
            Some(Value::Json(value)) => assert_eq!(json["value"].to_string(), value),
        }
    }
}
