//! A column of tuples: a column for each part, and the validity of rows.

use arrow::array::{Array, ArrayRef, BooleanBufferBuilder, StructArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields};

use crate::Column;

/// Builds a column of tuples. Either all parts of a tuple have a value, or the tuple is null.
pub(crate) struct Parts {
    fields: Fields,
    columns: Vec<Column>,
    is_there: BooleanBufferBuilder,
}

impl Parts {
    /// `None` if a part has an unsupported type, or there is no part.
    pub(crate) fn new(fields: &Fields) -> Option<Parts> {
        let columns: Option<Vec<Column>> =
            fields.iter().map(|field| Column::new(field.data_type())).collect();
        let columns = columns.filter(|columns| !columns.is_empty())?;
        Some(Parts { fields: fields.clone(), columns, is_there: BooleanBufferBuilder::new(0) })
    }

    pub(crate) fn count(&self) -> usize {
        self.columns.len()
    }

    /// Appends a tuple, or a null if a part cannot be appended.
    pub(crate) fn append(
        &mut self,
        mut append: impl FnMut(usize, &mut Column) -> Result<(), String>,
    ) -> Result<(), String> {
        let rows = self.is_there.len();
        let appended = self.columns.iter_mut().enumerate().try_for_each(|(index, column)| {
            append(index, column).map_err(|reason| format!("part {}: {reason}", index + 1))
        });
        self.is_there.append(appended.is_ok());
        for column in &mut self.columns {
            if column.len() == rows {
                column.append_null();
            }
        }
        appended
    }

    pub(crate) fn append_null(&mut self) {
        self.columns.iter_mut().for_each(Column::append_null);
        self.is_there.append(false);
    }

    pub(crate) fn len(&self) -> usize {
        self.is_there.len()
    }

    pub(crate) fn finish(&mut self) -> StructArray {
        let mut nulls = Some(NullBuffer::new(self.is_there.finish()));
        let parts: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        // A tuple that lacks a part is null.
        for part in &parts {
            nulls = NullBuffer::union(nulls.as_ref(), part.logical_nulls().as_ref());
        }
        let rows = nulls.as_ref().map_or(0, NullBuffer::len);
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        StructArray::try_new(self.fields.clone(), parts, nulls).unwrap_or_else(|_| {
            // The parts are equally long, and have the types of their fields.
            StructArray::from(new_null_array(&DataType::Struct(self.fields.clone()), rows).to_data())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Field, UInt8Type};

    fn pair() -> DataType {
        let part = |name: &str, data_type| Field::new(name, data_type, false);
        DataType::Struct(vec![part("0", DataType::UInt8), part("1", DataType::Utf8)].into())
    }

    #[test]
    fn a_tuple_has_all_of_its_parts_or_there_is_none() {
        let mut column = Column::new(&pair()).unwrap();
        let mut append = |number: u64, text: Option<&str>| {
            column.append_tuple(|index, part| match (index, text) {
                (0, _) => part.append_whole(number),
                (_, Some(text)) => part.append(text),
                (_, None) => Err("there is none".to_owned()),
            })
        };
        assert_eq!(append(7, Some("a")), Ok(()));
        assert_eq!(
            append(256, Some("b")),
            Err("part 1: `256` is not a UInt8 (it is out of range)".to_owned())
        );
        assert_eq!(append(8, None), Err("part 2: there is none".to_owned()));
        assert_eq!(append(9, Some("c")), Ok(()));
        column.append_null();
        assert!(column.append("7 a").unwrap_err().starts_with("`7 a` is not a (UInt8, String)"));
        let array = column.finish();
        let tuples = array.as_struct();
        let there: Vec<bool> = (0..array.len()).map(|row| array.is_valid(row)).collect();
        assert_eq!(there, [true, false, false, true, false, false]);
        assert_eq!(tuples.column(0).as_primitive::<UInt8Type>().value(3), 9);
        assert_eq!(tuples.column(1).as_string::<i32>().value(3), "c");
        assert_eq!(array.data_type(), &pair());
        assert_eq!(column.finish().len(), 0, "the next one starts empty");
    }
}
