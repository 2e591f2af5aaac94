//! Verdicts on their way into columns.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, BooleanBuilder, DictionaryArray, Float64Builder, Int32Array, Int64Builder, StringArray,
    StringBuilder, TimestampNanosecondArray, UInt64Builder,
};

use crate::{Kind, Value, VerdictRef};

/// A batch of verdicts under construction.
#[derive(Default)]
pub(crate) struct VerdictColumns {
    time: Vec<i64>,
    kind: Vec<i32>,
    stream: Vec<i32>,
    instance: Sparse<StringBuilder>,
    bool: Sparse<BooleanBuilder>,
    int: Sparse<Int64Builder>,
    uint: Sparse<UInt64Builder>,
    float: Sparse<Float64Builder>,
    text: Sparse<StringBuilder>,
    json: Sparse<StringBuilder>,
    message: Sparse<StringBuilder>,
    /// Kept for its memory.
    label: String,
}

/// A column that is empty mostly: nulls are counted, and appended all at once before the next value.
#[derive(Default)]
struct Sparse<B> {
    builder: B,
    length: usize,
}

impl<B: Nulls> Sparse<B> {
    /// The builder, ready for the value of a row.
    fn at(&mut self, row: usize) -> &mut B {
        if row > self.length {
            self.builder.append_nulls(row - self.length);
        }
        self.length = row + 1;
        &mut self.builder
    }

    fn finish(&mut self, rows: usize) -> ArrayRef {
        if rows > self.length {
            self.builder.append_nulls(rows - self.length);
        }
        self.length = 0;
        self.builder.finish()
    }
}

trait Nulls {
    fn append_nulls(&mut self, count: usize);
    fn finish(&mut self) -> ArrayRef;
}

macro_rules! nulls {
    ($($builder:ty),*) => {
        $(impl Nulls for $builder {
            fn append_nulls(&mut self, count: usize) {
                self.append_nulls(count);
            }

            fn finish(&mut self) -> ArrayRef {
                Arc::new(self.finish())
            }
        })*
    };
}
nulls!(StringBuilder, BooleanBuilder, Int64Builder, UInt64Builder, Float64Builder);

impl VerdictColumns {
    /// How many verdicts there are.
    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    pub(crate) fn push(&mut self, verdict: &VerdictRef<'_>) {
        let row = self.len();
        self.time.push(verdict.time.0);
        self.kind.push(verdict.kind as i32);
        self.stream.push(i32::try_from(verdict.stream).unwrap_or(i32::MAX));
        if let Some(instance) = verdict.instance {
            self.label.clear();
            instance.label(&mut self.label);
            self.instance.at(row).append_value(&self.label);
        }
        match verdict.value {
            Some(Value::Bool(value)) => self.bool.at(row).append_value(value),
            Some(Value::Int(value)) => self.int.at(row).append_value(value),
            Some(Value::UInt(value)) => self.uint.at(row).append_value(value),
            Some(Value::Float(value)) => self.float.at(row).append_value(value),
            Some(Value::Text(value)) => self.text.at(row).append_value(value),
            Some(Value::Json(value)) => self.json.at(row).append_value(value),
            None => {}
        }
        if let Some(details) = verdict.details {
            self.json.at(row).append_value(details);
        }
        if let Some(message) = verdict.message {
            self.message.at(row).append_value(message);
        }
    }

    /// The columns of the verdict schema so far; the next ones start empty.
    pub(crate) fn finish(&mut self, stream_names: &ArrayRef) -> Vec<ArrayRef> {
        static KIND_NAMES: LazyLock<ArrayRef> =
            LazyLock::new(|| Arc::new(StringArray::from_iter_values(Kind::ALL.map(Kind::name))));
        let names = |keys: &mut Vec<i32>, names: &ArrayRef| -> ArrayRef {
            let keys = Int32Array::from(std::mem::take(keys));
            Arc::new(DictionaryArray::new(keys, Arc::clone(names)))
        };
        let rows = self.len();
        vec![
            Arc::new(TimestampNanosecondArray::from(std::mem::take(&mut self.time)).with_timezone("UTC")),
            names(&mut self.kind, &KIND_NAMES),
            names(&mut self.stream, stream_names),
            self.instance.finish(rows),
            self.bool.finish(rows),
            self.int.finish(rows),
            self.uint.finish(rows),
            self.float.finish(rows),
            self.text.finish(rows),
            self.json.finish(rows),
            self.message.finish(rows),
        ]
    }
}
