//! The JSON-lines source.

use std::io;
use std::time::Instant;

use fairstream_core::{
    Adapter, Cause, OptionDoc, ROW_ORDER, ROW_ORDER_ONLY, RejectedRow, Source, SourceError, SourceFactory,
    SourceRequest, Time, TimeFormat, TimeReader, WantedColumn,
};
use fairstream_files::{
    Column, ENCODING, Encoding, FOLLOW, Folder, Input, JOURNAL, NextRow, Place, RowSource, Rows,
    several_files,
};

use crate::lines::Lines;
use crate::object::Wanted;
use crate::survey;

/// Opens sources of JSON lines.
#[derive(Clone, Copy, Debug)]
pub struct JsonSources;

const ENDINGS: &[&str] =
    &["jsonl", "ndjson", "json", "jsonl.gz", "ndjson.gz", "json.gz", "jsonl.zst", "ndjson.zst", "json.zst"];

const OPTIONS: &[OptionDoc] = &[
    OptionDoc::new("time", "time", "the key that says when a row happened; `row` takes rows in their order"),
    OptionDoc::new("time_format", "auto", TimeFormat::HELP),
    ENCODING,
    FOLLOW,
    JOURNAL,
    OptionDoc::new("max_row", "16777216", "a line with more bytes than this is a bad row"),
];

impl SourceFactory for JsonSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "jsonl",
            about: "one JSON object a line: a file, all below a folder, or a pattern; `a.b` is `b` inside `a`, `a.0` the first element of `a`; `.gz` and `.zst` are decompressed, `-` is standard input",
            extensions: ENDINGS,
            options: OPTIONS,
        }
    }

    fn takes_several_files(&self) -> bool {
        true
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        let files = several_files(request, ENDINGS);
        match files.map_err(|cause| request.cannot_open(cause))? {
            Some(files) => Ok(Box::new(Folder::open(request, files, open_file)?)),
            None => Ok(Box::new(open_file(request)?)),
        }
    }

    fn columns(&self, request: &SourceRequest) -> Result<Vec<WantedColumn>, SourceError> {
        let failed = |cause: Cause| request.cannot_open(cause);
        let files = several_files(request, ENDINGS).map_err(failed)?;
        let first = files.and_then(|files| files.into_iter().next());
        let location =
            first.map_or_else(|| request.location.clone(), |file| file.path.to_string_lossy().into_owned());
        let mut lines = open_lines(&SourceRequest { location, ..request.clone() })?;
        survey::columns(&mut lines).map_err(|error| failed(error.into()))
    }
}

/// Opens the lines of one file, or of standard input.
fn open_lines(request: &SourceRequest) -> Result<Lines, SourceError> {
    let bad_option = |bad| request.refuse(bad);
    let options = &request.options;
    let max_line = options.parse("max_row", 16 << 20).map_err(bad_option)?;
    let encoding = options.text(ENCODING.name).map(|_| options.parse(ENCODING.name, Encoding::Utf8));
    let encoding = encoding.transpose().map_err(bad_option)?;
    let input = Input::of_source(request)?;
    Ok(Lines::new(input.decoded(encoding), max_line))
}

/// Opens one file, or standard input.
fn open_file(request: &SourceRequest) -> Result<RowSource<JsonRows>, SourceError> {
    let open_failed = |cause: Cause| request.cannot_open(cause);
    let options = &request.options;
    let time_format = options.parse("time_format", TimeFormat::Auto).map_err(|bad| request.refuse(bad))?;
    let lines = open_lines(request)?;
    let columns = request.wanted.iter().map(|column| column.name.clone());
    // The keys of later lines are unknown, so `row` cannot be one of them.
    let time = Some(options.text("time").unwrap_or("time"))
        .filter(|time| ![ROW_ORDER, ROW_ORDER_ONLY].contains(time));
    let time_format = if time.is_some() { time_format } else { TimeFormat::Relative };
    let wanted = Wanted::new(time, columns);
    let rows = JsonRows { lines, wanted };
    let mut source =
        RowSource::new(rows, &request.wanted, time_format, request.context.clone()).map_err(open_failed)?;
    if let Some(position) = &request.resume {
        source.go_to(position).map_err(open_failed)?;
    }
    Ok(source)
}

struct JsonRows {
    lines: Lines,
    wanted: Wanted,
}

impl Rows for JsonRows {
    fn name(&self) -> &str {
        self.lines.name()
    }

    fn next(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        self.lines.read(deadline)
    }

    fn line(&self) -> u64 {
        self.lines.number()
    }

    fn place(&self) -> Place {
        self.lines.place()
    }

    fn go_to(&mut self, place: Place) -> io::Result<()> {
        self.lines.go_to(place)
    }

    fn anchor(&self) -> Vec<u8> {
        self.lines.input().anchor(self.lines.place().offset)
    }

    fn set_anchor(&mut self, anchor: &[u8]) -> io::Result<()> {
        self.lines.input_mut().set_anchor(anchor)
    }

    fn acknowledge(&mut self, place: Place) -> io::Result<()> {
        self.lines.input_mut().acknowledge(place.offset)
    }

    fn append(&mut self, columns: &mut [Column], time: &mut TimeReader) -> Result<Option<Time>, RejectedRow> {
        let row = self.lines.number();
        match self.lines.fault() {
            Some(fault) => Err(RejectedRow { row, column: None, reason: fault.to_owned() }),
            None => self.wanted.append(self.lines.text(), row, columns, time),
        }
    }

    fn is_live(&self) -> bool {
        self.lines.is_live()
    }

    fn is_by_row(&self) -> bool {
        self.wanted.is_by_row()
    }

    fn offers(&self) -> Vec<String> {
        Vec::new()
    }
}
