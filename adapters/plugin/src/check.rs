//! Checks the arrays of a plugin before they are used.
//!
//! The size of the memory behind a pointer cannot be determined, so a wrong size from a plugin cannot be detected.
//! Everything else that can be wrong with an array is checked here, or by Arrow's own validation after it.

use std::sync::Arc;

use arrow::array::{RecordBatch, StructArray};
use arrow::datatypes::{DataType, Schema};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi};
use fairstream_core::catch_panic;

/// The layout of the struct of the Arrow C data interface, for inspection.
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

/// Maximum number of rows of a batch.
const MANY: i64 = 1 << 24;

/// Imports the rows of a plugin from an array of the Arrow C data interface, after checking all that can be
/// checked.
///
/// # Errors
/// The reason why it is invalid.
///
/// # Safety
/// The array has not been released, and every pointer in it that is not null points to memory of the declared
/// size.
pub unsafe fn import(array: FFI_ArrowArray, schema: &Schema) -> Result<RecordBatch, String> {
    // SAFETY: guaranteed by the caller.
    unsafe { check(&raw const array, schema) }?;
    // An empty array may have invalid offsets and pointers, which Arrow would follow.
    if array.is_empty() {
        return Ok(RecordBatch::new_empty(Arc::new(schema.clone())));
    }
    let import = || {
        let fields = FFI_ArrowSchema::try_from(DataType::Struct(schema.fields().clone()))?;
        // SAFETY: the array has the shape of the schema, as far as that can be checked.
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

/// Checks that an array can be the rows of a schema.
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
        // SAFETY: the array has the declared number of children.
        let child = unsafe { (*array.children.add(index)).as_ref() };
        let child = child.ok_or_else(|| format!("a batch without its column `{}`", field.name()))?;
        // SAFETY: guaranteed by the caller.
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
    // SAFETY: the array has the declared number of buffers, which is at least two.
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
        // SAFETY: there is one offset more than values, and both numbers were checked above.
        return unsafe { check_offsets(values.cast(), (offset + length) as usize + 1, texts.is_null()) };
    }
    Ok(())
}

/// Checks that the offsets of texts are not negative and do not decrease.
///
/// # Safety
/// There are `count` offsets.
unsafe fn check_offsets(offsets: *const i32, count: usize, are_nowhere: bool) -> Result<(), String> {
    if !offsets.is_aligned() {
        return Err("offsets at an odd address".to_owned());
    }
    let mut before = 0;
    for index in 0..count {
        // SAFETY: guaranteed by the caller.
        let offset = unsafe { *offsets.add(index) };
        if offset < before {
            return Err(format!("a text that ends at byte {offset} and begins at {before}"));
        }
        before = offset;
    }
    if before > 0 && are_nowhere { Err("texts, and does not say where".to_owned()) } else { Ok(()) }
}
