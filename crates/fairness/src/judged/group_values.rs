//! Values of a column → groups: bins, labels, values that are left out.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringBuilder};
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::group::Grouping;

/// The group of each value; null where there is none.
pub(super) fn groups_of(column: &ArrayRef, grouping: &Grouping) -> Result<ArrayRef, ArrowError> {
    if !grouping.bins.is_empty() {
        return in_bins(column, grouping);
    }
    let texts = ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default())?;
    let text = |row: usize| column.is_valid(row).then(|| texts.value(row).to_string());
    if grouping.labels.is_empty() {
        let is_left_out = |row: usize| text(row).is_some_and(|text| grouping.group(&text).is_none());
        let left_out: BooleanArray = (0..column.len()).map(|row| Some(is_left_out(row))).collect();
        return nullif(column, &left_out);
    }
    let mut groups = StringBuilder::new();
    for row in 0..column.len() {
        groups.append_option(text(row).as_deref().and_then(|text| grouping.group(text)));
    }
    Ok(Arc::new(groups.finish()))
}

fn in_bins(column: &ArrayRef, grouping: &Grouping) -> Result<ArrayRef, ArrowError> {
    let numbers = cast(column, &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    let names: Vec<String> = (0..=grouping.bins.len()).map(|bin| grouping.name_of_bin(bin)).collect();
    let is_left_out = |name: &String| grouping.group(name).is_none();
    let names: Vec<Option<String>> =
        names.into_iter().map(|name| (!is_left_out(&name)).then_some(name)).collect();
    let mut groups = StringBuilder::new();
    for number in numbers {
        let bin = number.and_then(|number| grouping.bin(number));
        groups.append_option(bin.and_then(|bin| names[bin].as_deref()));
    }
    Ok(Arc::new(groups.finish()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringArray, UInt64Array};

    use super::*;

    fn shown(column: &ArrayRef) -> Vec<String> {
        let texts =
            ArrayFormatter::try_new(column.as_ref(), &FormatOptions::default().with_null("-")).unwrap();
        (0..column.len()).map(|row| texts.value(row).to_string()).collect()
    }

    #[test]
    fn numbers_are_in_bins_from_their_lower_ends() {
        let grouping = Grouping { bins: vec![25.0, 40.5], ..Grouping::default() };
        let ages: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(24.9), Some(25.0), Some(40.5), None, Some(f64::NAN)]));
        let expected = ["under 25", "25 to under 40.5", "40.5 or more", "-", "-"];
        assert_eq!(shown(&groups_of(&ages, &grouping).unwrap()), expected);
    }

    #[test]
    fn codes_have_labels_and_some_values_are_left_out() {
        let labels = vec![("1".to_owned(), "male".to_owned()), ("9".to_owned(), "unknown".to_owned())];
        let grouping = Grouping { labels, except: vec!["unknown".to_owned()], ..Grouping::default() };
        let codes: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), Some(2), Some(9), None]));
        assert_eq!(shown(&groups_of(&codes, &grouping).unwrap()), ["male", "2", "-", "-"]);
    }

    #[test]
    fn a_column_keeps_its_type_if_values_are_only_left_out() {
        let grouping = Grouping { except: vec!["3".to_owned(), "Unknown".to_owned()], ..Grouping::default() };
        let codes: ArrayRef = Arc::new(UInt64Array::from(vec![Some(3), Some(30), None]));
        let groups = groups_of(&codes, &grouping).unwrap();
        assert_eq!(
            (groups.data_type(), shown(&groups)),
            (&DataType::UInt64, vec!["-".into(), "30".into(), "-".into()])
        );
        let names: ArrayRef = Arc::new(StringArray::from(vec!["Unknown", "F"]));
        assert_eq!(shown(&groups_of(&names, &grouping).unwrap()), ["-", "F"]);
    }
}
