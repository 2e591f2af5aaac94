//! The sizes of texts. A dictionary, or compression, lets a small file contain rows that are huge once each has its own
//! values, so that rows are converted as many at a time as memory should hold.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, OffsetSizeTrait};
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, UInt64Type};
use arrow::error::ArrowError;

/// Maximum size of a value in bytes. A row with a larger one is a bad row, as is a line of text that is longer.
pub(crate) const MAX_VALUE: usize = 16 << 20;

/// The same columns with texts and bytes as views, which share the values of a dictionary.
pub(crate) fn with_views(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(viewed).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn viewed(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => match &**values {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
            _ => return Arc::clone(field),
        },
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect::<Fields>()),
        _ => return Arc::clone(field),
    };
    let field =
        Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone());
    Arc::new(field)
}

/// The size of a value, as far as it varies.
type SizeAt<'a> = Box<dyn Fn(usize) -> usize + 'a>;

/// The sizes of the values of a column, by their index; `None` if all have the same.
pub(crate) fn sizes(values: &ArrayRef) -> Option<SizeAt<'_>> {
    Some(match values.data_type() {
        DataType::Utf8 => of_offsets(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => of_offsets(values.as_string::<i64>().value_offsets()),
        DataType::Binary => of_offsets(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => of_offsets(values.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => of_views(values.as_string_view().views()),
        DataType::BinaryView => of_views(values.as_binary_view().views()),
        DataType::FixedSizeBinary(size) => {
            let size = usize::try_from(*size).unwrap_or_default();
            Box::new(move |_| size)
        }
        DataType::Dictionary(..) => {
            let dictionary = values.as_any_dictionary_opt()?;
            let of_values = sizes(dictionary.values())?;
            let count = dictionary.values().len();
            // Keys may be of any width; a null has no size.
            let keys = cast(dictionary.keys(), &DataType::UInt64).ok()?;
            Box::new(move |row| {
                let keys = keys.as_primitive::<UInt64Type>();
                let key = if keys.is_valid(row) { usize::try_from(keys.value(row)).ok() } else { None };
                key.filter(|key| *key < count).map_or(0, &of_values)
            })
        }
        DataType::Struct(_) => {
            let parts: Vec<SizeAt<'_>> = values.as_struct().columns().iter().filter_map(sizes).collect();
            if parts.is_empty() {
                return None;
            }
            Box::new(move |row| parts.iter().map(|part| part(row)).sum())
        }
        DataType::FixedSizeList(..) => {
            let list = values.as_fixed_size_list();
            let length = usize::try_from(list.value_length()).unwrap_or_default();
            let of_items = sizes(list.values())?;
            // The items of a list begin with those of its first row, also in a slice.
            Box::new(move |row| (row * length..(row + 1) * length).map(&of_items).sum())
        }
        _ => return None,
    })
}

fn of_offsets<O: OffsetSizeTrait>(offsets: &[O]) -> SizeAt<'_> {
    Box::new(|row| (offsets[row + 1] - offsets[row]).as_usize())
}

fn of_views(views: &[u128]) -> SizeAt<'_> {
    // The length is in the lowest 32 bits.
    Box::new(|row| views[row] as u32 as usize)
}

/// The values, null where they are larger than [`MAX_VALUE`], and the rows of those.
pub(crate) fn without_huge(values: ArrayRef) -> Result<(ArrayRef, Vec<usize>), ArrowError> {
    let rows: Vec<usize> = match sizes(&values) {
        None => Vec::new(),
        Some(size_at) => (0..values.len()).filter(|row| size_at(*row) > MAX_VALUE).collect(),
    };
    if rows.is_empty() {
        return Ok((values, rows));
    }
    let mut huge = vec![false; values.len()];
    rows.iter().for_each(|row| huge[*row] = true);
    Ok((nullif(&values, &BooleanArray::from(huge))?, rows))
}
