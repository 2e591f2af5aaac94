//! The CSV source.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use fairstream_core::{
    Adapter, BadOption, Cause, EventBatch, OptionDoc, Options, Position, RejectedRow, Source, SourceContext,
    SourceError, SourceFactory, SourceRequest, TimeFormat, TimeReader, nearest,
};
use fairstream_files::Input;

use crate::column::{Column, Notation, shortened};
use crate::record::{Next, Place, Records};

/// Opens CSV sources.
#[derive(Clone, Copy, Debug)]
pub struct CsvSources;

const OPTIONS: &[OptionDoc] = &[
    option("time", "time", "the column that says when a row happened"),
    option("time_format", "auto", "auto, iso, rfc3339, date, s, ms, us, ns, relative"),
    option("delimiter", ",", "what separates fields: a character, or `tab` (the default of .tsv)"),
    option("null", "", "a field with this text has no value, like an empty one"),
    option("empty", "null", "`value` lets an empty field of a String input be the empty string"),
    option("decimal", ".", "what stands before the decimals: `.` or `,`"),
    option("max_row", "16777216", "a row with more bytes than this is a bad row"),
];

const fn option(name: &'static str, default: &'static str, help: &'static str) -> OptionDoc {
    OptionDoc { name, default, help }
}

impl SourceFactory for CsvSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "csv",
            about: "rows of text with a header; `.gz` and `.zst` are decompressed, `-` is standard input",
            extensions: &["csv", "tsv", "csv.gz", "tsv.gz", "csv.zst", "tsv.zst"],
            options: OPTIONS,
        }
    }

    fn open(&self, request: &SourceRequest) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(CsvSource::open(request)?))
    }
}

struct CsvSource {
    name: String,
    context: SourceContext,
    records: Records,
    notation: Notation,
    header: Vec<String>,
    schema: SchemaRef,
    /// For each column of the schema: the field it stands in.
    fields: Vec<usize>,
    columns: Vec<Column>,
    time_field: usize,
    time: TimeReader,
    rows: u64,
    line: u64,
    ended: bool,
    /// What ended it, to be told once the rows before have been given.
    failure: Option<SourceError>,
}

impl CsvSource {
    fn open(request: &SourceRequest) -> Result<CsvSource, SourceError> {
        let location = &request.location;
        let open_failed = |cause: Cause| SourceError::Open {
            origin: if location == "-" { "standard input".to_owned() } else { location.clone() },
            cause,
        };
        let bad_option = |bad| SourceError::Option { origin: location.clone(), bad };
        let settings = Settings::read(&request.options, location).map_err(bad_option)?;
        let input =
            Input::open(location, &request.context.stop).map_err(|error| open_failed(error.into()))?;
        let mut records = Records::new(input, settings.delimiter, settings.max_row);
        let header = read_header(&mut records).map_err(open_failed)?;

        let (mut fields, mut columns, mut schema) = (Vec::new(), Vec::new(), Vec::new());
        for wanted in &request.wanted {
            let Some(field) = find(&header, &wanted.name).map_err(|text| open_failed(text.into()))? else {
                continue;
            };
            let Some(column) = Column::new(&wanted.data_type) else {
                let text = format!("column `{}`: CSV has no {}", wanted.name, wanted.data_type);
                return Err(open_failed(text.into()));
            };
            fields.push(field);
            columns.push(column);
            schema.push(Field::new(&wanted.name, wanted.data_type.clone(), true));
        }
        let time_field = find(&header, &settings.time)
            .and_then(|field| field.ok_or_else(|| no_time(&settings.time, &header)))
            .map_err(|text| open_failed(text.into()))?;

        let mut source = CsvSource {
            name: records.name().to_owned(),
            context: request.context.clone(),
            line: records.line(),
            records,
            notation: settings.notation,
            header,
            schema: Arc::new(Schema::new(schema)),
            fields,
            columns,
            time_field,
            time: TimeReader::new(settings.time_format),
            rows: 0,
            ended: false,
            failure: None,
        };
        if let Some(position) = &request.resume {
            source.go_to(position).map_err(open_failed)?;
        }
        Ok(source)
    }

    fn go_to(&mut self, position: &Position) -> Result<(), Cause> {
        let Resume { place, time_format } =
            Resume::read(&position.resume).ok_or("the position is not one of a CSV file")?;
        self.records.go_to(place).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "it is shorter than it was when it was read before".into(),
            _ => Cause::from(error),
        })?;
        self.time = TimeReader::new(time_format);
        self.rows = position.rows;
        self.line = place.line;
        Ok(())
    }

    fn cannot_read(&self, cause: Cause) -> SourceError {
        SourceError::Read { origin: self.name.clone(), row: self.line, cause }
    }

    fn position(&self) -> Position {
        let resume = Resume { place: self.records.position(), time_format: self.time.format() };
        Position { rows: self.rows, resume: resume.written().into() }
    }

    /// Appends the current record to the columns. If that fails, some columns are longer than
    /// others, and the error says why.
    fn append(&mut self, times: &mut Vec<i64>) -> Result<(), RejectedRow> {
        let Self { records, .. } = self;
        let bad = |column: Option<&str>, reason: String| RejectedRow {
            row: records.line(),
            column: column.map(str::to_owned),
            reason,
        };
        if let Some(fault) = records.fault() {
            return Err(bad(None, fault.to_owned()));
        }
        if records.len() != self.header.len() {
            return Err(bad(None, wrong_length(records, self.header.len())));
        }
        let time = records.field(self.time_field);
        let time_column = || Some(self.header[self.time_field].as_str());
        let time = match std::str::from_utf8(time) {
            Ok(text) if text.trim_ascii().is_empty() => {
                return Err(bad(time_column(), "there is no time".to_owned()));
            }
            Ok(text) => {
                // Times of day have a point before their fraction in any notation of numbers.
                let text = if text.contains(':') { text.into() } else { self.notation.with_point(text) };
                self.time.read(&text).map_err(|error| bad(time_column(), error.to_string()))?
            }
            Err(_) => return Err(bad(time_column(), "the time is not UTF-8".to_owned())),
        };
        for (column, field) in self.columns.iter_mut().zip(&self.fields) {
            column
                .append(records.field(*field), &self.notation)
                .map_err(|reason| bad(Some(&self.header[*field]), reason))?;
        }
        times.push(time.0);
        Ok(())
    }
}

impl Source for CsvSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn offers(&self) -> Vec<String> {
        self.header.clone()
    }

    fn next_batch(&mut self) -> Result<Option<EventBatch>, SourceError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if self.ended || self.context.stop.is_stopped() {
            self.ended = true;
            return Ok(None);
        }
        let mut batch = Building::default();
        let start = self.records.position().offset;
        // An empty batch now and then, so that acknowledgements come through while nothing else does.
        let mut deadline = Instant::now().checked_add(IDLE);
        while batch.held() < self.context.max_rows.get() && self.records.position().offset - start < MAX_BYTES
        {
            match self.records.read(deadline) {
                Ok(Next::Record) => {}
                Ok(Next::NotYet) => break,
                Ok(Next::End) => {
                    self.ended = true;
                    break;
                }
                Err(error) => {
                    self.ended = true;
                    self.failure = Some(self.cannot_read(error.into()));
                    break;
                }
            }
            if batch.held() == 0 {
                deadline = Instant::now().checked_add(self.context.max_age);
            }
            self.line = self.records.line();
            self.rows += 1;
            match self.append(&mut batch.times) {
                Ok(()) => batch.row_numbers.push(self.line),
                Err(bad) => batch.reject(bad, &mut self.columns),
            }
        }
        if batch.held() == 0 && self.ended {
            return self.failure.take().map_or(Ok(None), Err);
        }
        let arrays = self.columns.iter_mut().map(Column::finish).collect();
        let events = batch.finish(&self.schema, arrays, self.position());
        let mut events = events.map_err(|error| self.cannot_read(error.into()))?;
        events.relative = self.time.is_relative();
        Ok(Some(events))
    }
}

/// How long to wait for a row before saying that there is none.
const IDLE: Duration = Duration::from_secs(1);

/// A batch is closed when it has come to this many bytes: a column of text holds 2 GiB at most.
const MAX_BYTES: u64 = 64 << 20;

/// A batch under construction.
#[derive(Default)]
struct Building {
    times: Vec<i64>,
    row_numbers: Vec<u64>,
    rejected: Vec<RejectedRow>,
    /// For each row that the columns hold: whether it counts. Empty as long as all do.
    good: Vec<bool>,
}

impl Building {
    /// After a row that did not decode: brings the columns to equal length, with a row that
    /// `finish` leaves out.
    fn reject(&mut self, bad: RejectedRow, columns: &mut [Column]) {
        self.good.resize(self.held(), true);
        self.good.push(false);
        self.rejected.push(bad);
        for column in columns {
            if column.len() < self.held() {
                column.append_null();
            }
        }
    }

    /// How many rows the columns hold.
    fn held(&self) -> usize {
        self.times.len() + self.rejected.len()
    }

    fn finish(
        mut self,
        schema: &SchemaRef,
        columns: Vec<ArrayRef>,
        end: Position,
    ) -> Result<EventBatch, arrow::error::ArrowError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.held()));
        let mut rows = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?;
        if !self.good.is_empty() {
            self.good.resize(rows.num_rows(), true);
            rows = filter_record_batch(&rows, &BooleanArray::from(self.good))?;
        }
        let mut events = EventBatch::new(rows, self.times, self.row_numbers, end);
        events.rejected = self.rejected;
        Ok(events)
    }
}

/// Where to go on, as bytes.
struct Resume {
    place: Place,
    time_format: TimeFormat,
}

impl Resume {
    fn written(&self) -> Vec<u8> {
        let Place { offset, line, after_return } = self.place;
        let format = self.time_format.name().as_bytes();
        [&offset.to_le_bytes(), &line.to_le_bytes(), &[u8::from(after_return)][..], format].concat()
    }

    fn read(bytes: &[u8]) -> Option<Resume> {
        let (offset, rest) = bytes.split_first_chunk()?;
        let (line, rest) = rest.split_first_chunk()?;
        let (after_return, format) = rest.split_first()?;
        Some(Resume {
            place: Place {
                offset: u64::from_le_bytes(*offset),
                line: u64::from_le_bytes(*line),
                after_return: *after_return == 1,
            },
            time_format: std::str::from_utf8(format).ok()?.parse().ok()?,
        })
    }
}

struct Settings {
    time: String,
    time_format: TimeFormat,
    delimiter: u8,
    max_row: usize,
    notation: Notation,
}

impl Settings {
    fn read(options: &Options, location: &str) -> Result<Settings, BadOption> {
        let one_of = |key: &str, default: &str, known: [&str; 2]| -> Result<bool, BadOption> {
            let value = options.text(key).unwrap_or(default);
            match known.iter().position(|known| *known == value) {
                Some(index) => Ok(index == 1),
                None => Err(BadOption::Value {
                    key: key.to_owned(),
                    value: value.to_owned(),
                    reason: format!("there are `{}` and `{}`", known[0], known[1]),
                }),
            }
        };
        let location = location.to_lowercase();
        let is_tsv = [".tsv", ".tsv.gz", ".tsv.zst"].iter().any(|ending| location.ends_with(ending));
        let delimiter = options.text("delimiter").unwrap_or(if is_tsv { "tab" } else { "," });
        let delimiter = match delimiter.as_bytes() {
            b"tab" | b"\\t" => b'\t',
            [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => *byte,
            _ => {
                return Err(BadOption::Value {
                    key: "delimiter".to_owned(),
                    value: delimiter.to_owned(),
                    reason: "it has to be one ASCII character, or `tab`".to_owned(),
                });
            }
        };
        Ok(Settings {
            time: options.text("time").unwrap_or("time").to_owned(),
            time_format: options.parse("time_format", TimeFormat::Auto)?,
            delimiter,
            max_row: options.parse("max_row", 16 << 20)?,
            notation: Notation {
                null: options.text("null").unwrap_or_default().to_owned(),
                empty_is_value: one_of("empty", "null", ["null", "value"])?,
                decimal_comma: one_of("decimal", ".", [".", ","])?,
            },
        })
    }
}

fn read_header(records: &mut Records) -> Result<Vec<String>, Cause> {
    if records.read(None)? != Next::Record {
        return Err("it is empty; it should begin with a row of column names".into());
    }
    if let Some(fault) = records.fault() {
        return Err(format!("the row of column names: {fault}").into());
    }
    (0..records.len())
        .map(|index| match std::str::from_utf8(records.field(index)) {
            Ok(name) => Ok(name.trim().to_owned()),
            Err(_) => {
                let packed = [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd"]
                    .iter()
                    .any(|mark| records.field(0).starts_with(mark));
                let hint = if packed {
                    "; it looks compressed: name it .gz or .zst, or pipe it through zcat or zstdcat"
                } else {
                    ""
                };
                Err(format!("the name of column {} is not UTF-8{hint}", index + 1).into())
            }
        })
        .collect()
}

fn find(header: &[String], name: &str) -> Result<Option<usize>, String> {
    let mut places = (0..header.len()).filter(|index| header[*index] == name);
    match (places.next(), places.next()) {
        (Some(first), Some(second)) => Err(format!(
            "column `{name}` is there twice, as number {} and {}; rename one of them",
            first + 1,
            second + 1
        )),
        (first, _) => Ok(first),
    }
}

fn no_time(name: &str, header: &[String]) -> String {
    const USUAL_TIMES: [&str; 6] = ["timestamp", "ts", "date", "datetime", "event_time", "created_at"];
    let names: Vec<String> = header.iter().map(|name| format!("`{}`", shortened(name))).collect();
    let usual = |column: &&str| USUAL_TIMES.iter().any(|usual| column.eq_ignore_ascii_case(usual));
    let header = || header.iter().map(String::as_str);
    if let ([only], Some(delimiter)) =
        (names.as_slice(), header().find_map(|name| name.chars().find(|c| ";\t|".contains(*c))))
    {
        let delimiter = if delimiter == '\t' { "tab".to_owned() } else { delimiter.to_string() };
        return format!("its only column is {only}; append `?delimiter={delimiter}` to the input, perhaps");
    }
    let hint = match header().find(usual).or_else(|| nearest(name, header())) {
        Some(near) => format!("`--time {near}`, perhaps"),
        None => "say which with `--time COLUMN`".to_owned(),
    };
    format!(
        "there is no column `{name}` that says when a row happened; {hint} (columns: {})",
        names.join(", ")
    )
}

fn wrong_length(records: &Records, expected: usize) -> String {
    let (found, lines) = (records.len(), records.lines());
    let fields = |count| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
    let hint = if lines > 1 {
        format!("; it runs over {lines} lines: is a quote not closed?")
    } else {
        String::new()
    };
    format!("it has {}, but there are {expected} column names{hint}", fields(found))
}
