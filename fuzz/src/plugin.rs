//! Batches of plugins: arrays of the Arrow C data interface with arbitrary numbers. The memory behind a pointer
//! has the declared size: a wrong size from a plugin cannot be detected.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use arrow::datatypes::{DataType, Field, Schema};
use arrow::ffi::FFI_ArrowArray;
use arrow::util::display::array_value_to_string;
use fairstream_plugin::{import, read_answers};

/// The struct of the Arrow C data interface.
#[repr(C)]
struct RawArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *const *const RawArray,
    dictionary: *const RawArray,
    release: Option<unsafe extern "C" fn(*mut RawArray)>,
    private_data: *mut c_void,
}

/// Nothing was allocated for it: everything is on the stack of the check.
unsafe extern "C" fn release(array: *mut RawArray) {
    // SAFETY: the caller of `release` owns the array.
    unsafe { (*array).release = None };
}

/// Capacity for values, from any offset on.
const ROOM: usize = 16;
const TEXT: usize = 64;

/// Reads numbers from the bytes; zeros beyond their end.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Mostly the correct number, otherwise a boundary value.
    fn number(&mut self, right: i64) -> i64 {
        const EDGES: [i64; 9] = [0, 1, -1, 2, 3, (1 << 24) + 1, i64::MIN, i64::MAX, i64::MAX - 7];
        match self.next() {
            byte @ 0xf0.. => EDGES[usize::from(byte - 0xf0) % EDGES.len()],
            _ => right,
        }
    }

    fn is_rare(&mut self) -> bool {
        self.next() >= 0xf0
    }
}

/// An array of arbitrary content is refused, or has the declared number of rows, each of which can be read.
pub(crate) fn plugin(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let rows = i64::from(bytes.next() % 8);
    let types = [DataType::Int64, DataType::Utf8, DataType::Boolean, DataType::Binary];
    let fields =
        types.iter().enumerate().map(|(index, of)| Field::new(format!("c{index}"), of.clone(), true));
    let schema = Schema::new(fields.collect::<Vec<_>>());

    let nulls = [bytes.next(), bytes.next(), bytes.next(), bytes.next()];
    let values: [u64; ROOM + 1] = std::array::from_fn(|_| u64::from(bytes.next()));
    let mut end = 0;
    let offsets: [i32; ROOM + 1] = std::array::from_fn(|_| {
        let step = bytes.next();
        end = (end + i32::from(step % 4)).min(TEXT as i32);
        // Decreasing, or negative.
        if step >= 0xf0 { i32::from(step) - 0xf8 } else { end }
    });
    let text: [u8; TEXT] = std::array::from_fn(|_| bytes.next());
    let pointer = |is_there: bool, to: *const c_void| if is_there { to } else { null() };
    let columns: [[*const c_void; 3]; 4] = std::array::from_fn(|index| {
        let values = if index % 2 == 1 { offsets.as_ptr().cast() } else { values.as_ptr().cast() };
        [
            pointer(bytes.next() % 2 == 0, nulls.as_ptr().cast()),
            pointer(!bytes.is_rare(), values),
            pointer(!bytes.is_rare(), text.as_ptr().cast()),
        ]
    });
    let children: [RawArray; 4] = std::array::from_fn(|index| RawArray {
        length: bytes.number(rows),
        null_count: bytes.number(-1),
        // Within the capacity, or far beyond it.
        offset: bytes.number(0),
        n_buffers: bytes.number(if index % 2 == 1 { 3 } else { 2 }),
        n_children: bytes.number(0),
        buffers: if bytes.is_rare() { null() } else { columns[index].as_ptr() },
        children: null(),
        dictionary: null(),
        release: Some(release),
        private_data: null_mut(),
    });
    let pointers: [*const RawArray; 4] =
        std::array::from_fn(|index| if bytes.is_rare() { null() } else { &raw const children[index] });
    let no_nulls = [null::<c_void>()];
    let mut array = RawArray {
        length: bytes.number(rows),
        null_count: bytes.number(0),
        offset: bytes.number(0),
        n_buffers: bytes.number(1),
        n_children: bytes.number(4),
        buffers: if bytes.is_rare() { null() } else { no_nulls.as_ptr() },
        children: if bytes.is_rare() { null() } else { pointers.as_ptr() },
        dictionary: null(),
        release: Some(release),
        private_data: null_mut(),
    };
    let length = array.length;
    // SAFETY: it has that layout, and is not used again.
    let array = unsafe { FFI_ArrowArray::from_raw((&raw mut array).cast()) };
    // SAFETY: every pointer leads to room for eight values from offset three on, and for their text; larger sizes
    // are refused.
    match unsafe { import(array, &schema) } {
        Err(reason) => assert!(!reason.is_empty(), "a reason"),
        Ok(batch) => {
            assert_eq!(i64::try_from(batch.num_rows()), Ok(length));
            for column in batch.columns() {
                (0..batch.num_rows()).for_each(|row| drop(array_value_to_string(column, row).unwrap()));
            }
        }
    }
}

/// The answers of a worker: every batch that is not refused has the columns that were announced, and values that can be
/// read.
pub(crate) fn worker(bytes: &[u8]) {
    let field = |name: &str, data_type| Field::new(name, data_type, true);
    let schema = Schema::new(vec![
        field("_time", DataType::Int64),
        field("_row", DataType::UInt64),
        field("t", DataType::Utf8),
    ]);
    for batch in read_answers(bytes, &schema) {
        assert_eq!(batch.schema().fields(), schema.fields());
        for column in batch.columns() {
            assert_eq!(column.len(), batch.num_rows());
            (0..column.len()).for_each(|row| drop(array_value_to_string(column, row).unwrap()));
        }
    }
}
