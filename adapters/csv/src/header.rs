//! The names of columns: finds those that are wanted.

use fairstream_core::Cause;
use fairstream_files::{ENCODING_HINT, NextRow};

use crate::record::Records;

/// The names of columns as they are in the data, or their numbers.
pub(crate) struct Header {
    names: Vec<String>,
    is_numbered: bool,
}

impl Header {
    /// Reads the row of column names. Without one, reads the first row, which the caller has to use, and names the
    /// columns `c1`, `c2` and so on.
    /// With `finds_delimiter`, another delimiter is tried if the row has one field only.
    pub(crate) fn read(
        records: &mut Records,
        has_header: bool,
        finds_delimiter: bool,
    ) -> Result<Header, Cause> {
        let mut row = records.read(None)?;
        if row == NextRow::Row && finds_delimiter && records.try_other_delimiters() {
            row = records.read(None)?;
        }
        if row != NextRow::Row {
            return Err(if has_header {
                "it is empty; it should begin with a row of column names".into()
            } else {
                "it is empty".into()
            });
        }
        if !has_header {
            if let Some(fault) = records.fault().filter(|_| records.len() == 0) {
                return Err(format!("the first row: {fault}").into());
            }
            let names = (1..=records.len()).map(|number| format!("c{number}")).collect();
            return Ok(Header { names, is_numbered: true });
        }
        if let Some(fault) = records.fault() {
            return Err(format!("the row of column names: {fault}").into());
        }
        let name = |index| match std::str::from_utf8(records.field(index)) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => {
                let packed = [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd"]
                    .iter()
                    .any(|mark| records.field(0).starts_with(mark));
                let hint = if packed {
                    "(it looks compressed: name it .gz or .zst, or pipe it through zcat or zstdcat)"
                } else {
                    ENCODING_HINT
                };
                Err(format!("the name of column {} is not UTF-8 {hint}", index + 1).into())
            }
        };
        let names = (0..records.len()).map(name).collect::<Result<_, Cause>>()?;
        Ok(Header { names, is_numbered: false })
    }

    /// Whether a record is the row of column names once more.
    pub(crate) fn is_repeated_by(&self, records: &Records) -> bool {
        !self.is_numbered
            && records.len() == self.names.len()
            && self.names.iter().enumerate().all(|(index, name)| records.field(index) == name.as_bytes())
    }

    /// Number of columns.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no row of column names.
    pub(crate) fn is_numbered(&self) -> bool {
        self.is_numbered
    }

    /// The name of a column in messages.
    pub(crate) fn name(&self, index: usize) -> &str {
        self.names[index].trim()
    }

    /// The column of that name, as it is in the data or else without blanks around it.
    ///
    /// # Errors
    /// There are several.
    pub(crate) fn find(&self, name: &str) -> Result<Option<usize>, String> {
        for matches in
            [|own: &str, name: &str| own == name, |own: &str, name: &str| own.trim() == name.trim()]
        {
            let mut places = (0..self.names.len()).filter(|index| matches(&self.names[*index], name));
            match (places.next(), places.next()) {
                (Some(first), Some(second)) => {
                    return Err(format!(
                        "column `{name}` is there twice, as number {} and {}; rename one of them",
                        first + 1,
                        second + 1
                    ));
                }
                (Some(only), None) => return Ok(Some(only)),
                (None, _) => {}
            }
        }
        Ok(None)
    }

    /// The names by which columns can be found: without blanks around them, where that is not ambiguous.
    pub(crate) fn offers(&self) -> Vec<String> {
        let is_found = |name: &str| self.find(name).is_ok();
        self.names.iter().map(|own| if is_found(own.trim()) { own.trim() } else { own }.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(names: &[&str]) -> Header {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Header { names, is_numbered: false }
    }

    proptest! {
        /// Every name that occurs once finds its column, and no name finds one of another name.
        #[test]
        fn names_find_their_columns(names in prop::collection::vec("[ab ]{0,3}", 1..6)) {
            let header = Header { names: names.clone(), is_numbered: false };
            for (index, name) in names.iter().enumerate() {
                let is_single = names.iter().filter(|other| *other == name).count() == 1;
                match header.find(name) {
                    Ok(found) => prop_assert_eq!(found, Some(index)),
                    Err(_) => prop_assert!(!is_single),
                }
            }
            if let Ok(Some(index)) = header.find("a") {
                prop_assert_eq!(names[index].trim(), "a");
            }
            for name in header.offers() {
                prop_assert!(header.find(&name).map_or(true, |found| found.is_some()));
            }
        }
    }

    #[test]
    fn blanks_around_names_matter_only_where_they_tell_names_apart() {
        assert_eq!(header(&["id ", " name"]).find("id"), Ok(Some(0)));
        assert_eq!(header(&["id ", " name"]).find(" name"), Ok(Some(1)));
        assert_eq!(header(&["id ", "id"]).find("id"), Ok(Some(1)));
        assert_eq!(header(&["id ", "id"]).find("id "), Ok(Some(0)));
        assert_eq!(
            header(&["id ", "x", " id"]).find("id"),
            Err("column `id` is there twice, as number 1 and 3; rename one of them".to_owned())
        );
        assert_eq!(header(&["id ", "x", " id"]).offers(), ["id ", "x", " id"]);
        assert_eq!(header(&["id ", "x"]).offers(), ["id", "x"]);
    }
}
