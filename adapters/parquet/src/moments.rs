//! Reads times from columns of any suitable type.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Date32Type, Date64Type, Float64Type, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use arrow::util::display::array_value_to_string;
use fairstream_core::{TimeFormat, TimeReader};
use fairstream_files::FirstTime;

use crate::convert::{Misfit, nanoseconds, scaled, shown};

/// Reads the times of one source.
#[derive(Clone, Debug)]
pub(crate) struct Moments {
    reader: TimeReader,
    /// Whether times are relative to the start of the trace, which types other than text and number cannot
    /// express.
    relative: bool,
    /// The error of the first time, if it cannot be read, once times have been read.
    first: Option<Option<String>>,
}

/// Times in nanoseconds, and the rows without a readable time.
pub(crate) type Times = (ScalarBuffer<i64>, Vec<Misfit>);

/// The smallest time, used for a row without one.
pub(crate) const NEVER: i64 = i64::MIN;

const NANOS_OF_DAY: i64 = 86_400_000_000_000;

impl Moments {
    pub(crate) fn new(format: TimeFormat) -> Moments {
        Moments { relative: format == TimeFormat::Relative, reader: TimeReader::new(format), first: None }
    }

    /// The format of texts and numbers, once one has been read.
    pub(crate) fn format(&self) -> &TimeFormat {
        self.reader.format()
    }

    pub(crate) fn is_relative(&self) -> bool {
        self.relative || self.reader.is_relative()
    }

    /// The error of the first time that was read, with examples of others; `None` if it could be read.
    pub(crate) fn first_fault(&self) -> Option<&str> {
        self.first.as_ref()?.as_deref()
    }

    /// Whether a column of that type can be a time.
    pub(crate) fn can_read(data_type: &DataType) -> bool {
        match data_type {
            DataType::Dictionary(_, values) => Moments::can_read(values),
            DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Duration(_)
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Decimal128(..) => true,
            other => other.is_integer() || other.is_floating(),
        }
    }

    /// The times of a column in nanoseconds, and the rows without a readable time.
    ///
    /// # Errors
    /// The type of the column cannot be a time.
    pub(crate) fn read(&mut self, column: &ArrayRef) -> Result<Times, ArrowError> {
        let (times, values) = match column.data_type() {
            DataType::Dictionary(_, values) => return self.read(&cast(column, values)?),
            DataType::Timestamp(..) => (nanoseconds(column)?, column),
            DataType::Duration(_) => {
                self.relative = true;
                (nanoseconds(column)?, column)
            }
            DataType::Date32 => (scaled(column.as_primitive::<Date32Type>(), NANOS_OF_DAY), column),
            DataType::Date64 => (scaled(column.as_primitive::<Date64Type>(), 1_000_000), column),
            DataType::UInt64 => {
                let numbers = column.as_primitive::<UInt64Type>();
                match self.factor(column)? {
                    Some(factor) => {
                        let times =
                            numbers.unary_opt(|number| i64::try_from(number).ok()?.checked_mul(factor));
                        (times, column)
                    }
                    None => return self.read_texts(column),
                }
            }
            other if other.is_integer() => match self.factor(column)? {
                Some(1) => (cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone(), column),
                Some(factor) => {
                    let numbers = cast(column, &DataType::Int64)?;
                    (scaled(numbers.as_primitive::<Int64Type>(), factor), column)
                }
                None => return self.read_texts(column),
            },
            other if other.is_floating() => return self.read_floats(column),
            _ => return self.read_texts(column),
        };
        let mut misfits = Vec::new();
        if times.null_count() > 0 {
            for row in (0..times.len()).filter(|row| times.is_null(*row)) {
                misfits.push((row, too_far(values, row)?));
            }
        }
        Ok((settled(&times), misfits))
    }

    /// Nanoseconds per unit of a numeric time; `None` if its format is not a count of units.
    fn factor(&mut self, column: &ArrayRef) -> Result<Option<i64>, ArrowError> {
        if *self.reader.format() == TimeFormat::Auto
            && let Some(row) = (0..column.len()).find(|row| column.is_valid(*row))
        {
            // Determines the format of all values that follow. An unreadable value is rejected later.
            let _ = self.reader.read(&array_value_to_string(column, row)?);
        }
        Ok(match self.reader.format() {
            TimeFormat::Relative | TimeFormat::Seconds => Some(1_000_000_000),
            TimeFormat::Millis => Some(1_000_000),
            TimeFormat::Micros => Some(1_000),
            TimeFormat::Nanos => Some(1),
            TimeFormat::Auto
            | TimeFormat::Iso
            | TimeFormat::Rfc3339
            | TimeFormat::Date
            | TimeFormat::Pattern(_) => None,
        })
    }

    fn read_floats(&mut self, column: &ArrayRef) -> Result<Times, ArrowError> {
        const EXACT: f64 = 9e15;
        let column = cast(column, &DataType::Float64)?;
        let factor = self.factor(&column)?;
        let floats = column.as_primitive::<Float64Type>();
        self.read_each(&column, |reader, row| {
            let float = floats.value(row);
            match factor {
                Some(factor) if float.fract() == 0.0 && float.abs() < EXACT => {
                    (float as i64).checked_mul(factor).ok_or_else(|| String::from(TOO_FAR))
                }
                // Its digits are parsed, so that a tenth of a second is exact.
                _ => reader.read(&float.to_string()).map(|time| time.0).map_err(|bad| bad.to_string()),
            }
        })
    }

    fn read_texts(&mut self, column: &ArrayRef) -> Result<Times, ArrowError> {
        let texts = cast(column, &DataType::Utf8)?;
        let texts = texts.as_string::<i32>();
        self.read_each(column, |reader, row| {
            reader.read(texts.value(row)).map(|time| time.0).map_err(|bad| bad.to_string())
        })
    }

    fn read_each(
        &mut self,
        column: &ArrayRef,
        read: impl Fn(&mut TimeReader, usize) -> Result<i64, String>,
    ) -> Result<Times, ArrowError> {
        let mut times = Vec::with_capacity(column.len());
        let mut misfits = Vec::new();
        let is_first = self.first.is_none() && !column.is_empty();
        let mut first: Option<FirstTime> = None;
        self.reader.take_refused();
        for row in 0..column.len() {
            let time =
                if column.is_null(row) { Err(NO_TIME.to_owned()) } else { read(&mut self.reader, row) };
            if is_first {
                match (&mut first, &time) {
                    (None, Err(_)) if row == 0 => first = self.reader.take_refused().map(FirstTime::new),
                    (Some(first), Err(_)) if first.wants_more() => first.add(self.reader.take_refused()),
                    (Some(first), Ok(_)) => first.end(),
                    _ => {}
                }
            }
            times.push(time.unwrap_or_else(|reason| {
                misfits.push((row, reason));
                NEVER
            }));
        }
        if is_first {
            self.first = Some(first.map(|first| first.reason()));
        }
        Ok((times.into(), misfits))
    }
}

pub(crate) const NO_TIME: &str = "there is no time";
const TOO_FAR: &str = "it is not between the years 1677 and 2262";

fn too_far(values: &ArrayRef, row: usize) -> Result<String, ArrowError> {
    if values.is_null(row) {
        return Ok(NO_TIME.to_owned());
    }
    Ok(format!("`{}` is not between the years 1677 and 2262", shown(values, row)))
}

/// The values, with the smallest time in place of nulls.
fn settled(times: &Int64Array) -> ScalarBuffer<i64> {
    if times.null_count() == 0 {
        return times.values().clone();
    }
    times.iter().map(|time| time.unwrap_or(NEVER)).collect::<Vec<_>>().into()
}
