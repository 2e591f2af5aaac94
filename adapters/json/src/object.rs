//! Extracts the requested values of one object and appends them to columns.

use std::borrow::Cow;
use std::fmt;

use arrow::datatypes::DataType;
use fairstream_core::{RejectedRow, Time, TimeReader, nearest};
use fairstream_files::{Column, ENCODING_HINT, shortened, type_name};
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::flat;

/// The paths of the requested values, and the ranges of those found in the current object.
pub(crate) struct Wanted {
    root: Node,
    /// Path of each column, then of the time.
    paths: Vec<String>,
    /// Index of the time; `None` if rows are taken in their order.
    time: Option<usize>,
    /// For each path its value in the line.
    found: Vec<FoundValue>,
}

/// Where the value of a path is in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FoundValue {
    /// The range of the value; empty if there is none.
    range: (usize, usize),
    /// Whether the whole path is a key of the object, which takes precedence over keys and indices on the way.
    is_key: bool,
}

/// The keys of an object, or indices of an array, that are part of a requested path.
#[derive(Default)]
struct Node {
    branches: Vec<(String, Branch)>,
}

/// Target of a key: the paths that end there, and the keys of a nested object.
#[derive(Default)]
struct Branch {
    /// The key as an index of an array, if it is one.
    index: Option<usize>,
    /// Paths that are this key as a whole.
    keys: Vec<usize>,
    /// Paths that end here after other keys.
    paths: Vec<usize>,
    node: Node,
}

impl Wanted {
    /// Requests the time, and a value for each column, at these paths: keys, joined by dots for nested objects; in an
    /// array, the index of an element, counted from 0.
    /// Without a time, rows are taken in their order.
    pub(crate) fn new(time: Option<&str>, columns: impl Iterator<Item = String>) -> Wanted {
        let mut paths: Vec<String> = columns.collect();
        let columns = paths.len();
        paths.extend(time.map(str::to_owned));
        let mut root = Node::default();
        for (index, path) in paths.iter().enumerate() {
            // The whole path may also be one key with dots.
            root.branch(path).keys.push(index);
            if let Some((key, rest)) = path.split_once('.') {
                root.branch(key).add(rest, index);
            }
        }
        Wanted { root, found: vec![FoundValue::default(); paths.len()], paths, time: time.map(|_| columns) }
    }

    /// Whether rows are taken in their order.
    pub(crate) fn is_by_row(&self) -> bool {
        self.time.is_none()
    }

    /// Appends the values of the object on a line to the columns. Returns its time, if it has one of its own.
    pub(crate) fn append(
        &mut self,
        line: &[u8],
        number: u64,
        columns: &mut [Column],
        time: &mut TimeReader,
    ) -> Result<Option<Time>, RejectedRow> {
        let bad = |column: Option<&str>, reason: String| RejectedRow {
            row: number,
            column: column.map(str::to_owned),
            reason,
        };
        let line =
            std::str::from_utf8(line).map_err(|_| bad(None, format!("it is not UTF-8 {ENCODING_HINT}")))?;
        if self.find_in_flat(line).is_none() {
            self.find(line).map_err(|error| bad(None, reason(&error, line)))?;
        }
        let value = |path: usize| {
            let (start, end) = self.found[path].range;
            &line[start..end]
        };
        let time = match self.time {
            None => None,
            Some(index) => {
                let path = self.paths[index].as_str();
                let moment = read_time(value(index), path, line, time);
                Some(moment.map_err(|reason| bad(Some(path), reason))?)
            }
        };
        for (index, column) in columns.iter_mut().enumerate() {
            append(value(index), column).map_err(|reason| bad(Some(&self.paths[index]), reason))?;
        }
        Ok(time)
    }
}

/// Reads the time of a line, given as its JSON text.
fn read_time(raw: &str, path: &str, line: &str, reader: &mut TimeReader) -> Result<Time, String> {
    if let Some(time) = reader.read_digits(raw.as_bytes()) {
        return Ok(time);
    }
    match raw {
        "" => Err(no_time(path, line)),
        "null" => Err("there is no time".to_owned()),
        raw => reader.read(&text(raw)?).map_err(|error| error.to_string()),
    }
}

impl Wanted {
    /// Finds the ranges of the requested values.
    fn find(&mut self, line: &str) -> serde_json::Result<()> {
        self.found.fill(FoundValue::default());
        ObjectWalk { node: &self.root, line, found: &mut self.found }.read(line)
    }

    /// The same on the fast path; `None` if the object is not flat and plain.
    fn find_in_flat(&mut self, line: &str) -> Option<()> {
        let Wanted { root, found, .. } = self;
        found.fill(FoundValue::default());
        flat::walk(line.as_bytes(), |key, range| {
            for path in root.find(key).map(|branch| branch.keys.as_slice()).unwrap_or_default() {
                // A duplicate key is reported by the slow path.
                if std::mem::replace(&mut found[*path], FoundValue { range, is_key: true }).is_key {
                    return None;
                }
            }
            Some(())
        })
    }
}

impl Node {
    fn branch(&mut self, key: &str) -> &mut Branch {
        let place = self.branches.iter().position(|(known, _)| known == key).unwrap_or_else(|| {
            // An index is written without leading zeros.
            let index = key.parse().ok().filter(|index: &usize| index.to_string() == key);
            self.branches.push((key.to_owned(), Branch { index, ..Branch::default() }));
            self.branches.len() - 1
        });
        &mut self.branches[place].1
    }

    fn find(&self, key: &[u8]) -> Option<&Branch> {
        self.branches.iter().find(|(known, _)| known.as_bytes() == key).map(|(_, branch)| branch)
    }
}

impl Branch {
    fn add(&mut self, path: &str, index: usize) {
        match path.split_once('.') {
            Some((key, rest)) => self.node.branch(key).add(rest, index),
            None => self.node.branch(path).paths.push(index),
        }
    }
}

/// Records the ranges of the requested values of an object.
struct ObjectWalk<'a> {
    node: &'a Node,
    line: &'a str,
    found: &'a mut [FoundValue],
}

impl ObjectWalk<'_> {
    fn read(self, object: &str) -> serde_json::Result<()> {
        let mut json = serde_json::Deserializer::from_str(object);
        serde::Deserializer::deserialize_map(&mut json, self)?;
        json.end()
    }
}

impl<'de> Visitor<'de> for ObjectWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(branch) = map.next_key_seed(Key(self.node))? {
            let Some(branch) = branch else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value = map.next_value::<&RawValue>()?.get();
            record(branch, value, self.line, self.found).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// Records the ranges of the requested values in the value of a key or index.
fn record(branch: &Branch, value: &str, line: &str, found: &mut [FoundValue]) -> serde_json::Result<()> {
    let start = value.as_ptr().addr() - line.as_ptr().addr();
    let range = (start, start + value.len());
    for (paths, is_key) in [(&branch.keys, true), (&branch.paths, false)] {
        for path in paths {
            let place = &mut found[*path];
            if place.range.1 > 0 && place.is_key == is_key {
                return Err(serde_json::Error::custom("a key is there twice"));
            }
            if !place.is_key {
                *place = FoundValue { range, is_key };
            }
        }
    }
    if branch.node.branches.is_empty() {
        return Ok(());
    }
    let node = &branch.node;
    match value.as_bytes().first() {
        Some(b'{') => ObjectWalk { node, line, found }.read(value),
        Some(b'[') => {
            let mut json = serde_json::Deserializer::from_str(value);
            serde::Deserializer::deserialize_seq(&mut json, ArrayWalk { node, line, found })?;
            json.end()
        }
        _ => Ok(()),
    }
}

/// Records the ranges of the requested values of an array.
struct ArrayWalk<'a> {
    node: &'a Node,
    line: &'a str,
    found: &'a mut [FoundValue],
}

impl<'de> Visitor<'de> for ArrayWalk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        let last = self.node.branches.iter().filter_map(|(_, branch)| branch.index).max();
        for index in 0..=last.unwrap_or_default() {
            let Some(value) = array.next_element::<&RawValue>()? else { return Ok(()) };
            for (_, branch) in self.node.branches.iter().filter(|(_, branch)| branch.index == Some(index)) {
                record(branch, value.get(), self.line, self.found).map_err(A::Error::custom)?;
            }
        }
        while array.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// Looks up a key.
struct Key<'a>(&'a Node);

impl<'de, 'a> DeserializeSeed<'de> for Key<'a> {
    type Value = Option<&'a Branch>;

    fn deserialize<D: serde::Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Key<'a> {
    type Value = Option<&'a Branch>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.find(key.as_bytes()))
    }
}

/// Appends a value, given as its JSON text, to a column.
fn append(raw: &str, column: &mut Column) -> Result<(), String> {
    if column.append_digits(raw.as_bytes()) {
        return Ok(());
    }
    let is_not = |what: &str| Err(format!("{what} is not {}", type_name(column.data_type())));
    match raw.as_bytes().first() {
        None | Some(b'n') => {
            column.append_null();
            Ok(())
        }
        Some(b'"') => column.append(&text(raw)?),
        Some(b'{') => is_not("an object"),
        Some(b'[') => match column.parts() {
            None => is_not("an array"),
            Some(count) => append_tuple(raw, count, column),
        },
        Some(b't' | b'f') if !matches!(column.data_type(), DataType::Boolean) => is_not(&format!("`{raw}`")),
        Some(_) if column.is_text() => is_not(&format!("the number `{}`", shortened(raw))),
        Some(_) => match whole(raw) {
            Some(whole) if column.data_type().is_integer() => column.append(&whole),
            _ => column.append(raw),
        },
    }
}

/// Appends an array to a column of tuples with `count` parts.
fn append_tuple(raw: &str, count: usize, column: &mut Column) -> Result<(), String> {
    let parts: Vec<&RawValue> = serde_json::from_str(raw).map_err(|error| error.to_string())?;
    if parts.len() != count {
        let (found, wanted) = (parts.len(), type_name(column.data_type()));
        return Err(format!("an array of {found} is not {wanted}"));
    }
    column.append_tuple(|index, part| match parts[index].get() {
        "null" => Err("there is none (a tuple without all of its parts is no value)".to_owned()),
        raw => append(raw, part),
    })
}

/// The content of a string, or the JSON text of any other value.
fn text(raw: &str) -> Result<Cow<'_, str>, String> {
    match raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')) {
        None => Ok(Cow::Borrowed(raw)),
        Some(inner) if memchr::memchr(b'\\', inner.as_bytes()).is_none() => Ok(Cow::Borrowed(inner)),
        Some(_) => {
            serde_json::from_str(raw).map(Cow::Owned).map_err(|_| format!("{} is not a text", shortened(raw)))
        }
    }
}

/// The digits of an integer that is written like `5.0` or `5e3`, without point and exponent, exactly. `None` if it is
/// none, or longer than any integer.
fn whole(raw: &str) -> Option<String> {
    /// Number of digits that an `i128` holds in any case.
    const MOST: usize = 38;
    let (number, exponent) = match raw.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
        None if raw.contains('.') => (raw, 0),
        None => return None,
    };
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction = fraction.trim_end_matches('0');
    // The digits, followed by this number of zeros.
    let digits = [whole, fraction].concat();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let zeros = exponent.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let digits = match usize::try_from(zeros) {
        Ok(zeros) if zeros <= MOST => [digits, &"0".repeat(zeros)].concat(),
        Ok(_) => return None,
        // Digits behind the point have to be zeros.
        Err(_) => {
            let behind = usize::try_from(zeros.unsigned_abs()).ok()?;
            let (before, behind) = digits.split_at_checked(digits.len().checked_sub(behind)?)?;
            if behind.bytes().any(|digit| digit != b'0') {
                return None;
            }
            before.to_owned()
        }
    };
    (digits.len() <= MOST).then(|| [sign, &digits].concat())
}

fn reason(error: &serde_json::Error, line: &str) -> String {
    let first = line.trim_ascii_start().bytes().next();
    if error.is_data() {
        // The message of serde_json precedes its position.
        let text = error.to_string();
        let text = text.split(" at line ").next().unwrap_or_default();
        return match first {
            Some(b'[') => {
                "it is an array; write one object a line (`jq -c '.[]'` turns an array into lines)".to_owned()
            }
            Some(b'{') => text.to_owned(),
            _ => "it is not an object".to_owned(),
        };
    }
    if error.is_eof() && first == Some(b'{') {
        return "it is cut off: an object has to end on the line that it begins on".to_owned();
    }
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or_default();
    format!("it is not JSON: {what} at character {}", error.column())
}

/// Error message for a missing time.
fn no_time(path: &str, line: &str) -> String {
    let keys =
        serde_json::from_str::<std::collections::BTreeMap<String, IgnoredAny>>(line).unwrap_or_default();
    let names = || keys.keys().map(String::as_str);
    let listed: Vec<String> = names().take(20).map(|key| format!("`{}`", shortened(key))).collect();
    let hint = match nearest(path, names()) {
        Some(near) => format!("`--time {near}`, perhaps"),
        None => "say which key it has with `--time KEY`".to_owned(),
    };
    format!(
        "there is no time; {hint}, or take rows in their order with `--time row` (keys: {})",
        listed.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, ArrayRef};
    use arrow::datatypes::Field;
    use arrow::util::display::array_value_to_string;
    use fairstream_core::TimeFormat;
    use proptest::prelude::*;

    /// The time and the values of a line, `∅` for null, or its error.
    fn read(line: &str) -> String {
        let part = |name, data_type| Field::new(name, data_type, false);
        let types = [
            ("id", DataType::UInt8),
            ("who.name", DataType::Utf8),
            ("who.score", DataType::Float64),
            ("ok", DataType::Boolean),
            ("sum", DataType::Decimal128(28, 3)),
            ("pair", DataType::Struct(vec![part("0", DataType::UInt8), part("1", DataType::Utf8)].into())),
        ];
        let mut columns: Vec<Column> = types.iter().map(|(_, ty)| Column::new(ty).unwrap()).collect();
        let mut wanted = Wanted::new(Some("time"), types.iter().map(|(path, _)| (*path).to_owned()));
        match wanted.append(line.as_bytes(), 7, &mut columns, &mut TimeReader::new(TimeFormat::Auto)) {
            Ok(time) => {
                let time = time.unwrap();
                let arrays: Vec<ArrayRef> = columns.iter_mut().map(Column::finish).collect();
                let shown = arrays.iter().map(|array| match array.is_null(0) {
                    true => "∅".to_owned(),
                    false => array_value_to_string(array, 0).unwrap(),
                });
                format!("{} {}", time.for_people(), shown.collect::<Vec<_>>().join(" "))
            }
            Err(RejectedRow { row: 7, column: Some(column), reason }) => format!("{column}: {reason}"),
            Err(bad) => bad.reason,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// An integer is read exactly, wherever its point is.
        #[test]
        fn integers_may_have_a_point_and_an_exponent(
            value in any::<i64>(),
            small in -1000..1000_i64,
            zeros in 0..12_usize,
            shift in 0..25_i64,
        ) {
            for value in [value, small] {
                let (sign, digits) = if value < 0 { ("-", value.unsigned_abs()) } else { ("", value.unsigned_abs()) };
                let digits = digits.to_string();
                let padded = format!("{}{digits}", "0".repeat(25));
                let (before, behind) = padded.split_at(padded.len() - usize::try_from(shift).unwrap());
                let before = before.trim_start_matches('0');
                let before = if before.is_empty() { "0" } else { before };
                let behind = format!("{behind}{}", "0".repeat(zeros));
                let behind = if behind.is_empty() { "0" } else { &behind };
                let shifted = format!("{sign}{before}.{behind}e{shift}");
                prop_assert_eq!(whole(&shifted), Some(value.to_string()), "{}", shifted);
                let negative = format!("{value}{}E-{zeros}", "0".repeat(zeros));
                prop_assert_eq!(whole(&negative), Some(value.to_string()), "{}", negative);
                let half = format!("{value}.5{}", "0".repeat(zeros));
                prop_assert_eq!(whole(&half), None);
            }
        }

        /// If the fast path succeeds, it finds the same values as the slow path.
        #[test]
        fn both_ways_find_the_same(
            text in r#"( ?\{ ?)?(("(time|id|a|a.0|who|who.name|x)" ?: ?("[ab\\"é]{0,3}"?|-?[0-9]{0,3}(\.[0-9]*)?([eE][+-]?[0-9]*)?|true|false|nul?l|\{\}|\[1\]),? ?){0,5})\}?[ x]?"#,
            at in any::<prop::sample::Index>(),
            byte: u8,
        ) {
            let mut broken = text.clone().into_bytes();
            if !broken.is_empty() {
                let at = at.index(broken.len());
                broken[at] = byte;
            }
            for line in [Some(text), String::from_utf8(broken).ok()].into_iter().flatten() {
                let paths = || ["id", "who.name", "a", "a.0"].map(str::to_owned).into_iter();
                let (mut short, mut long) = (Wanted::new(Some("time"), paths()), Wanted::new(Some("time"), paths()));
                if short.find_in_flat(&line).is_some() {
                    prop_assert!(long.find(&line).is_ok(), "{}", line);
                    prop_assert_eq!(&short.found, &long.found, "{}", line);
                }
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The value at a path is the one that following its parts one by one finds; a key that is the whole path
        /// takes precedence.
        #[test]
        fn paths_lead_through_objects_and_arrays(
            value in any_value(),
            path in r"(a|b|0|1|01)(\.(a|b|0|1|01|2)){0,3}",
            extra in prop::option::of(0..9_u32),
        ) {
            let mut object = serde_json::json!({ "time": 1, "a": value.clone(), "b": 1, "0": [value] });
            if let Some(extra) = extra {
                object[path.as_str()] = serde_json::json!(extra);
            }
            let step = |at: &serde_json::Value, part: &str| match at {
                serde_json::Value::Array(items) => {
                    let index = part.parse::<usize>().ok().filter(|index| index.to_string() == part)?;
                    items.get(index).cloned()
                }
                other => other.get(part).cloned(),
            };
            let followed = path.split('.').try_fold(object.clone(), |at, part| step(&at, part));
            let expected = object.get(&path).cloned().or(followed);
            let line = object.to_string();
            let mut wanted = Wanted::new(Some("time"), [path.clone()].into_iter());
            prop_assert!(wanted.find(&line).is_ok());
            let (start, end) = wanted.found[0].range;
            let found = (end > 0).then(|| serde_json::from_str::<serde_json::Value>(&line[start..end]).unwrap());
            prop_assert_eq!(found, expected, "{} in {}", path, line);
        }
    }

    fn any_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![Just(serde_json::Value::Null), (0..9_u32).prop_map(|n| serde_json::json!(n))];
        leaf.prop_recursive(3, 12, 3, |inside| {
            prop_oneof![
                prop::collection::vec(inside.clone(), 0..3).prop_map(serde_json::Value::from),
                prop::collection::vec(("(a|b|0|1)", inside), 0..3)
                    .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    /// The fast path accepts plain lines and refuses all others.
    #[test]
    fn plain_lines_take_the_short_way() {
        let mut wanted = Wanted::new(Some("time"), ["id".to_owned()].into_iter());
        for line in [
            r#"{"time":1,"id":7,"gender":"F"}"#,
            r#" { "time" : "2026-01-01" , "id" : -0.5e+3 , "x" : null } "#,
            r#"{"id":true,"time":0}"#,
            "{}",
        ] {
            assert_eq!(wanted.find_in_flat(line), Some(()), "{line}");
        }
        for line in [
            r#"{"id":1,"id":2}"#,
            r#"{"a":"\n"}"#,
            r#"{"a":[1]}"#,
            r#"{"a":01}"#,
            r#"{"a":1,}"#,
            r#"{"a":1}x"#,
        ] {
            assert_eq!(wanted.find_in_flat(line), None, "{line}");
        }
    }

    #[test]
    fn an_object_says_what_is_wanted_of_it() {
        for (line, expected) in [
            (r#"{"time": 1, "id": 5, "ok": true}"#, "1s 5 ∅ ∅ true ∅ ∅"),
            (r#"{"ok":null,"more":[{"id":3}],"time":"2.5","id":"7"}"#, "2.5s 7 ∅ ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"who":{"score":1e3,"name":"a\"\u00e4","x":{}}}"#, "1s ∅ a\"ä 1000.0 ∅ ∅ ∅"),
            (r#"{"time":1,"who.name":"dotted"}"#, "1s ∅ dotted ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"who":5}"#, "1s ∅ ∅ ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"who":{"name":"nested"},"who.name":"dotted"}"#, "1s ∅ dotted ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"who.name":"dotted","who":{"name":"nested"}}"#, "1s ∅ dotted ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"who":{"name":"a","name":"b"}}"#, "a key is there twice"),
            (r#"{"time":1,"id":5.0}"#, "1s 5 ∅ ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"sum":0.1}"#, "1s ∅ ∅ ∅ ∅ 0.100 ∅"),
            (r#"{"time":1,"pair":[7, "a\"b"]}"#, "1s ∅ ∅ ∅ ∅ ∅ {0: 7, 1: a\"b}"),
            (r#"{"time":1,"pair":null}"#, "1s ∅ ∅ ∅ ∅ ∅ ∅"),
            (r#"{"time":1,"pair":[7]}"#, "pair: an array of 1 is not a (UInt8, String)"),
            (
                r#"{"time":1,"pair":[7,null]}"#,
                "pair: part 2: there is none (a tuple without all of its parts is no value)",
            ),
            (r#"{"time":1,"pair":[-1,"a"]}"#, "pair: part 1: `-1` is not a UInt8 (it is negative)"),
            (r#"{"time":1,"pair":[7,[]]}"#, "pair: part 2: an array is not a String"),
            (r#"{"time":1,"pair":{"0":7}}"#, "pair: an object is not a (UInt8, String)"),
            (r#"{"time":1,"pair":7}"#, "pair: `7` is not a (UInt8, String) (write an array)"),
            (r#"{"time":1,"id":[5]}"#, "id: an array is not a UInt8"),
            (r#"{"time":1,"id":5.5}"#, "id: `5.5` is not a UInt8 (it is not a whole number)"),
            (r#"{"time":1,"id":256}"#, "id: `256` is not a UInt8 (it is out of range)"),
            (r#"{"time":1,"id":"x"}"#, "id: `x` is not a UInt8"),
            (r#"{"time":1,"id":true}"#, "id: `true` is not a UInt8"),
            (r#"{"time":1,"id":{"a":1}}"#, "id: an object is not a UInt8"),
            (r#"{"time":1,"who":{"name":5}}"#, "who.name: the number `5` is not a String"),
            (
                r#"{"id":1,"timestamp":3}"#,
                "time: there is no time; `--time timestamp`, perhaps, or take rows in their order with `--time row` (keys: `id`, `timestamp`)",
            ),
            (
                r#"{"id":1,"tine":3}"#,
                "time: there is no time; `--time tine`, perhaps, or take rows in their order with `--time row` (keys: `id`, `tine`)",
            ),
            (r#"{"time":null}"#, "time: there is no time"),
            (r#"{"time":1,"id":1,"id":2}"#, "a key is there twice"),
            (
                r#"[{"time":1}]"#,
                "it is an array; write one object a line (`jq -c '.[]'` turns an array into lines)",
            ),
            ("17", "it is not an object"),
            (r#"{"time":1"#, "it is cut off: an object has to end on the line that it begins on"),
            (r#"{"time":1} x"#, "it is not JSON: trailing characters at character 12"),
            (r#"{"time":1,}"#, "it is not JSON: trailing comma at character 11"),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }
}
