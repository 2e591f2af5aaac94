//! The CSV source.

use std::io;
use std::time::Instant;

use arrow::datatypes::DataType;
use fairstream_core::{
    Adapter, BadOption, Cause, OptionDoc, Options, ROW_ORDER, ROW_ORDER_ONLY, RejectedRow, Source,
    SourceError, SourceFactory, SourceRequest, Time, TimeFormat, TimeReader, WantedColumn,
};
use fairstream_files::{
    Column, ENCODING, Encoding, FOLLOW, Folder, Input, JOURNAL, NextRow, Place, RowSource, Rows,
    no_time_column, several_files, type_name,
};

use crate::header::Header;
use crate::notation::Notation;
use crate::record::{Limits, Records};

/// Opens CSV sources.
#[derive(Clone, Copy, Debug)]
pub struct CsvSources;

const ENDINGS: &[&str] = &["csv", "tsv", "csv.gz", "tsv.gz", "csv.zst", "tsv.zst"];

const OPTIONS: &[OptionDoc] = &[
    OptionDoc::new(
        "time",
        "time",
        "the column that says when a row happened; `row` takes rows in their order",
    ),
    OptionDoc::new("time_format", "auto", TimeFormat::HELP),
    OptionDoc::new(
        "header",
        "true",
        "`false`: there is no row of column names; columns are `c1`, `c2` and so on",
    ),
    OptionDoc::new(
        "delimiter",
        "auto",
        "what separates fields: a character or `tab`; `auto` is a tab for .tsv, otherwise a comma, or else what \
         splits the first row: `;`, a tab or `|`",
    ),
    OptionDoc::new("null", "", "a field with this text has no value, like an empty one"),
    OptionDoc::new("empty", "null", "`value` lets an empty field of a String input be the empty string"),
    OptionDoc::new("decimal", ".", "what stands before the decimals: `.` or `,`"),
    ENCODING,
    FOLLOW,
    JOURNAL,
    OptionDoc::new(
        "max_row",
        "auto",
        "a row with more bytes than this is a bad row; `auto` is 16777216, and 65536 for a row of several lines",
    ),
];

impl SourceFactory for CsvSources {
    fn adapter(&self) -> Adapter {
        Adapter {
            name: "csv",
            about: "rows of text with a header: a file, all below a folder, or a pattern; `.gz` and `.zst` are decompressed, `-` is standard input",
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
}

/// Opens one file, or standard input.
fn open_file(request: &SourceRequest) -> Result<RowSource<CsvRows>, SourceError> {
    let location = &request.location;
    let open_failed = |cause: Cause| request.cannot_open(cause);
    let bad_option = |bad| request.refuse(bad);
    let settings = Settings::read(&request.options, location).map_err(bad_option)?;
    let input = Input::of_source(request)?;
    let input = input.decoded(settings.encoding);
    let mut records = Records::new(input, settings.delimiter, settings.limits);
    let header =
        Header::read(&mut records, settings.has_header, settings.finds_delimiter).map_err(open_failed)?;
    records.expect_fields(header.len());

    let (mut fields, mut wanted) = (Vec::new(), Vec::new());
    for column in &request.wanted {
        if let Some(field) = header.find(&column.name).map_err(|text| open_failed(text.into()))? {
            if matches!(column.data_type, DataType::Struct(_)) {
                return Err(open_failed(no_tuples(column).into()));
            }
            fields.push(field);
            wanted.push(column.clone());
        }
    }
    let time_field = match header.find(&settings.time).map_err(|text| open_failed(text.into()))? {
        None if ![ROW_ORDER, ROW_ORDER_ONLY].contains(&settings.time.as_str()) => {
            return Err(open_failed(no_time_column(&settings.time, &header.offers()).into()));
        }
        field => field,
    };
    let time_format = if time_field.is_some() { settings.time_format } else { TimeFormat::Relative };

    let rows = CsvRows {
        records,
        notation: settings.notation,
        header,
        fields,
        time_field,
        is_first_pending: !settings.has_header,
    };
    let mut source =
        RowSource::new(rows, &wanted, time_format, request.context.clone()).map_err(open_failed)?;
    if let Some(position) = &request.resume {
        source.go_to(position).map_err(open_failed)?;
    }
    Ok(source)
}

fn no_tuples(column: &WantedColumn) -> String {
    format!(
        "a field of column `{}` cannot be {}; declare an input for each part, or read JSON lines, in which \
         a tuple is an array",
        column.name,
        type_name(&column.data_type)
    )
}

struct CsvRows {
    records: Records,
    notation: Notation,
    header: Header,
    /// For each requested column: the index of its field.
    fields: Vec<usize>,
    /// `None` if rows are taken in their order.
    time_field: Option<usize>,
    /// Whether the record that has been read is not the row of column names but the first row.
    is_first_pending: bool,
}

impl Rows for CsvRows {
    fn name(&self) -> &str {
        self.records.name()
    }

    fn is_live(&self) -> bool {
        self.records.is_live()
    }

    fn next(&mut self, deadline: Option<Instant>) -> io::Result<NextRow> {
        if std::mem::take(&mut self.is_first_pending) {
            return Ok(NextRow::Row);
        }
        loop {
            let next = self.records.read(deadline)?;
            // Where files or runs follow one another, each may begin with the names of columns.
            let is_repeated =
                self.records.input().has_several_beginnings() && self.header.is_repeated_by(&self.records);
            if next != NextRow::Row || !is_repeated {
                return Ok(next);
            }
        }
    }

    fn line(&self) -> u64 {
        self.records.line()
    }

    fn place(&self) -> Place {
        self.records.place()
    }

    fn go_to(&mut self, place: Place) -> io::Result<()> {
        self.is_first_pending = false;
        self.records.go_to(place)
    }

    fn anchor(&self) -> Vec<u8> {
        self.records.input().anchor(self.records.place().offset)
    }

    fn set_anchor(&mut self, anchor: &[u8]) -> io::Result<()> {
        self.records.input_mut().set_anchor(anchor)
    }

    fn acknowledge(&mut self, place: Place) -> io::Result<()> {
        self.records.input_mut().acknowledge(place.offset)
    }

    fn append(&mut self, columns: &mut [Column], time: &mut TimeReader) -> Result<Option<Time>, RejectedRow> {
        let CsvRows { records, notation, header, fields, time_field, .. } = self;
        let bad = |column: Option<&str>, reason: String| RejectedRow {
            row: records.line(),
            column: column.map(str::to_owned),
            reason,
        };
        if let Some(fault) = records.fault() {
            return Err(bad(None, fault.to_owned()));
        }
        if records.len() != header.len() {
            return Err(bad(None, wrong_length(records, header)));
        }
        let time = match time_field {
            None => None,
            Some(field) => {
                let written = records.field(*field);
                Some(match time.read_digits(written) {
                    Some(time) => time,
                    None => notation
                        .time(written, time)
                        .map_err(|reason| bad(Some(header.name(*field)), reason))?,
                })
            }
        };
        for (column, field) in columns.iter_mut().zip(fields) {
            notation
                .append(records.field(*field), column)
                .map_err(|reason| bad(Some(header.name(*field)), reason))?;
        }
        Ok(time)
    }

    fn is_by_row(&self) -> bool {
        self.time_field.is_none()
    }

    fn offers(&self) -> Vec<String> {
        self.header.offers()
    }
}

struct Settings {
    has_header: bool,
    encoding: Option<Encoding>,
    time: String,
    time_format: TimeFormat,
    delimiter: u8,
    /// Whether another delimiter is tried if the first row has no comma.
    finds_delimiter: bool,
    limits: Limits,
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
        let delimiter = options.text("delimiter").unwrap_or("auto");
        let finds_delimiter = delimiter == "auto" && !is_tsv;
        let delimiter = match delimiter.as_bytes() {
            b"auto" if is_tsv => b'\t',
            b"auto" => b',',
            b"tab" | b"\\t" => b'\t',
            [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => *byte,
            _ => {
                return Err(BadOption::Value {
                    key: "delimiter".to_owned(),
                    value: delimiter.to_owned(),
                    reason: "it has to be one ASCII character, `tab` or `auto`".to_owned(),
                });
            }
        };
        Ok(Settings {
            has_header: one_of("header", "true", ["false", "true"])?,
            encoding: options
                .text(ENCODING.name)
                .map(|_| options.parse(ENCODING.name, Encoding::Utf8))
                .transpose()?,
            time: options.text("time").unwrap_or("time").to_owned(),
            time_format: options.parse("time_format", TimeFormat::Auto)?,
            delimiter,
            finds_delimiter,
            limits: match options.text("max_row") {
                None | Some("auto") => Limits::default(),
                Some(_) => Limits::of(options.parse("max_row", 0)?),
            },
            notation: Notation {
                null: options.text("null").unwrap_or_default().to_owned(),
                empty_is_value: one_of("empty", "null", ["null", "value"])?,
                decimal_comma: one_of("decimal", ".", [".", ","])?,
            },
        })
    }
}

fn wrong_length(records: &Records, header: &Header) -> String {
    let (found, lines) = (records.len(), records.lines());
    let fields = |count| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
    let hint = if lines > 1 {
        format!("; it runs over {lines} lines: is a quote not closed?")
    } else if records.is_cut_off() && found < header.len() {
        "; the input ends within it: is it cut off?".to_owned()
    } else {
        String::new()
    };
    let expected = header.len();
    if header.is_numbered() {
        return format!("it has {}, but the first row has {expected}{hint}", fields(found));
    }
    format!("it has {}, but there are {expected} column names{hint}", fields(found))
}
