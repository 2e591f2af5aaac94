//! Looks at what a plugin hands over before anything is made of it.
//!
//! A pointer says nothing of how much there is behind it, so a plugin that lies about that cannot be found
//! out. Everything else that can be wrong with an array is looked at here, or by Arrow's own validation
//! after it.

use arrow::datatypes::{DataType, Schema};

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

/// Whether an array can be one of a schema's rows.
///
/// # Errors
/// What is wrong with it.
///
/// # Safety
/// There is such a struct at `array`, which has not been released, and at each pointer in it that is not
/// null what the numbers beside it say.
pub(crate) unsafe fn check(array: *const arrow::ffi::FFI_ArrowArray, schema: &Schema) -> Result<(), String> {
    // SAFETY: both are the struct of the Arrow C data interface.
    let array = unsafe { &*array.cast::<RawArray>() };
    let RawArray { length, offset, n_children, .. } = *array;
    if !(0..=MANY).contains(&length) || offset != 0 {
        return Err(format!("a batch of {length} rows from row {offset} on"));
    }
    if usize::try_from(n_children) != Ok(schema.fields().len()) || array.children.is_null() {
        let columns = schema.fields().len();
        return Err(format!("a batch of {n_children} columns, where its schema has {columns}"));
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
    Ok(())
}
