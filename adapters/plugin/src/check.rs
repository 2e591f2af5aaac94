//! Looks at what a plugin hands over before anything is made of it.
//!
//! A pointer says nothing of how much there is behind it, so a plugin that lies about that cannot be found
//! out. Everything else that can be wrong with an array is looked at here, or by Arrow's own validation
//! after it.

use std::sync::Arc;

use arrow::array::{RecordBatch, StructArray};
use arrow::datatypes::{DataType, Schema};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use fairstream_core::catch_panic;

/// The struct of the Arrow C data interface, to be looked into.
#[repr(C)]
struct RawArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const std::ffi::c_void,
    children: *const *const RawArray,
    dictionary: *const RawArray,
    release: Option<unsafe extern "C" fn(*mut RawArray)>,
    private_data: *mut std::ffi::c_void,
}

/// More rows than a batch may have.
const MANY: i64 = 1 << 24;

/// The rows that a plugin gives as an array of the Arrow C data interface, once all that can be looked at is as it
/// should be.
///
/// # Errors
/// What is wrong with it.
///
/// # Safety
/// The array has not been released, and at each pointer in it that is not null there is what the numbers beside it
/// say.
pub unsafe fn import(array: FFI_ArrowArray, schema: &Schema) -> Result<RecordBatch, String> {
    // SAFETY: as the caller says.
    unsafe { check(&raw const array, schema) }?;
    // Where there are no rows, offsets and pointers may be anything, and Arrow follows them.
    if array.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::new(schema.clone())));
    }
    let import = || {
        let fields = FFI_ArrowSchema::try_from(DataType::Struct(schema.fields().clone()))?;
        // SAFETY: the array has the shape of the schema, as far as that can be seen.
        let data = unsafe { from_ffi(array, &fields) }?;
        data.validate_full()?;
        Ok::<_, arrow::error::ArrowError>(RecordBatch::from(StructArray::from(data)))
    };
    match catch_panic(import) {
        Ok(Ok(batch)) => Ok(batch),
        Ok(Err(error)) => Err(format!("a batch that is none: {error}")),
        Err(panic) => Err(format!("a batch that is none: {panic}")),
    }
}

/// Whether an array can be one of a schema's rows.
///
/// # Safety
/// As for `import`.
unsafe fn check(array: *const FFI_ArrowArray, schema: &Schema) -> Result<(), String> {
    // SAFETY: both are the struct of the Arrow C data interface.
    let array = unsafe { &*array.cast::<RawArray>() };
    let RawArray { length, offset, n_buffers, n_children, .. } = *array;
    if !(0..=MANY).contains(&length) || offset != 0 {
        return Err(format!("a batch of {length} rows from row {offset} on"));
    }
    if usize::try_from(n_children) != Ok(schema.fields().len()) || array.children.is_null() {
        let columns = schema.fields().len();
        return Err(format!("a batch of {n_children} columns, where its schema has {columns}"));
    }
    if n_buffers != 1 || array.buffers.is_null() {
        return Err(format!("a batch of {n_buffers} buffers, where rows have 1"));
    }
    for (index, field) in schema.fields().iter().enumerate() {
        // SAFETY: there are as many children as the array says.
        let child = unsafe { (*array.children.add(index)).as_ref() };
        let child = child.ok_or_else(|| format!("a batch without its column `{}`", field.name()))?;
        // SAFETY: as the caller says.
        unsafe { check_column(child, field.data_type(), length) }
            .map_err(|reason| format!("a batch whose column `{}` has {reason}", field.name()))?;
    }
    Ok(())
}

/// # Safety
/// As for `check`.
unsafe fn check_column(array: &RawArray, data_type: &DataType, rows: i64) -> Result<(), String> {
    let RawArray { length, null_count, offset, n_buffers, n_children, .. } = *array;
    if length != rows {
        return Err(format!("{length} values, where the batch has {rows} rows"));
    }
    if !(0..=MANY).contains(&offset) || !(-1..=length).contains(&null_count) {
        return Err(format!("{null_count} nulls among {length} values from {offset} on"));
    }
    if matches!(data_type, DataType::Struct(_)) {
        return Err("tuples, which plugins cannot give; declare an input for each part".to_owned());
    }
    if n_children != 0 || !array.dictionary.is_null() {
        return Err("children".to_owned());
    }
    let expected = if matches!(data_type, DataType::Utf8 | DataType::Binary) { 3 } else { 2 };
    if n_buffers != expected || array.buffers.is_null() {
        return Err(format!("{n_buffers} buffers, where a {data_type} has {expected}"));
    }
    // SAFETY: there are as many buffers as the array says, two at least.
    let (nulls, values) = unsafe { (*array.buffers, *array.buffers.add(1)) };
    if nulls.is_null() && null_count > 0 {
        return Err(format!("{null_count} nulls, and does not say where"));
    }
    if values.is_null() && length > 0 {
        return Err("no values".to_owned());
    }
    if expected == 3 && length > 0 {
        // SAFETY: there are three buffers.
        let texts = unsafe { *array.buffers.add(2) };
        // SAFETY: there is one offset more than values, in numbers that were looked at above.
        return unsafe { check_offsets(values.cast(), (offset + length) as usize + 1, texts.is_null()) };
    }
    Ok(())
}

/// Texts lie one behind another: where one ends the next begins.
///
/// # Safety
/// There are so many offsets.
unsafe fn check_offsets(offsets: *const i32, count: usize, are_nowhere: bool) -> Result<(), String> {
    if !offsets.is_aligned() {
        return Err("offsets at an odd address".to_owned());
    }
    let mut before = 0;
    for index in 0..count {
        // SAFETY: as the caller says.
        let offset = unsafe { *offsets.add(index) };
        if offset < before {
            return Err(format!("a text that ends at byte {offset} and begins at {before}"));
        }
        before = offset;
    }
    if before > 0 && are_nowhere { Err("texts, and does not say where".to_owned()) } else { Ok(()) }
}
