"""Writes JSON lines with Python's json and with jq into tests/data/json.

    apt install jq && python3 tests/data/make_json.py

All files hold the events of tests/data/foreign/events.csv, so that the tests can expect the same verdicts of
all; those that must be refused are named bad_*. The tests read the files that are committed, not this script.
"""

import csv
import json
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).parent / "json"
shutil.rmtree(HERE, ignore_errors=True)
HERE.mkdir()


def value(column, text):
    if text == "":
        return None
    if column == "id":
        return int(text)
    if column == "salary":
        return float(text)
    return text == "true" if column == "accepted" else text


rows = list(csv.DictReader(open(HERE.parent / "foreign/events.csv")))
events = [{column: value(column, text) for column, text in row.items()} for row in rows]


def write(name, lines):
    (HERE / name).write_text("".join(line + "\n" for line in lines))


write("python.jsonl", (json.dumps(event) for event in events))
write("python_utf8.jsonl", (json.dumps(event | {"note": "ä🙂\t\"\\"}, ensure_ascii=False) for event in events))
write("python_compact.jsonl", (json.dumps(event, separators=(",", ":"), sort_keys=True) for event in events))
present = ({column: value for column, value in event.items() if value is not None} for event in events)
write("python_absent.jsonl", (json.dumps(event) for event in present))
nested = ({"time": event["time"], "is": event | {"tags": [1, {"id": 7}]}} for event in events)
write("python_nested.jsonl", (json.dumps(event) for event in nested))
write("bad_python_array.json", [json.dumps(events)])
write("bad_python_indent.json", [json.dumps(event, indent=2) for event in events])
write("bad_python_nan.jsonl", [json.dumps(event | {"salary": float("nan")}) for event in events])


def jq(name, *arguments, of="python.jsonl"):
    done = subprocess.run(["jq", *arguments, HERE / of], check=True, capture_output=True)
    (HERE / name).write_bytes(done.stdout)


jq("jq.jsonl", "-c", ".")
jq("jq_from_array.jsonl", "-c", ".[]", of="bad_python_array.json")
jq("jq_ascii_sorted.jsonl", "-c", "-a", "-S", ". + {note: \"ä🙂\"}")
jq("jq_texts.jsonl", "-c", ".salary |= tostring | .id |= if . then tostring else . end")
jq("bad_jq_indent.json", ".")
# RFC 7464: a record separator before each line.
written = subprocess.run(["jq", "-n", "-c", "--seq", "$events[]", "--slurpfile", "events", HERE / "python.jsonl"], check=True, capture_output=True)
(HERE / "bad_jq_seq.jsonl").write_bytes(written.stdout)
