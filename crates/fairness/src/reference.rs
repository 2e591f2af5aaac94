//! Reference groups: the value that a definition of groups names, as a value of the type of its column.

use serde_json::Value;

use crate::file::{FairnessFile, Metric};
use crate::group::{GroupColumn, Grouping};
use crate::table::{Located, list, toml_text};
use crate::{ColumnSample, Comparison, Compiled, Problem};

/// A value of a column of groups that others are compared with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReferenceValue {
    Text(String),
    Integer(i64),
    Number(f64),
    Truth(bool),
}

impl ReferenceValue {
    /// The value that a text is of a type of columns; `None` if that type has no such value.
    pub(crate) fn parse(text: &str, data_type: &str) -> Option<ReferenceValue> {
        let integer = |low: i64, high: i64| {
            let number = text.trim().parse().ok().filter(|number| (low..=high).contains(number));
            number.map(ReferenceValue::Integer)
        };
        match data_type {
            "Bool" => text.trim().parse().ok().map(ReferenceValue::Truth),
            "Int8" => integer(i8::MIN.into(), i8::MAX.into()),
            "Int16" => integer(i16::MIN.into(), i16::MAX.into()),
            "Int32" => integer(i32::MIN.into(), i32::MAX.into()),
            // RTLola has no literals beyond these.
            "Int64" => integer(-i64::MAX, i64::MAX),
            "UInt8" => integer(0, u8::MAX.into()),
            "UInt16" => integer(0, u16::MAX.into()),
            "UInt32" => integer(0, u32::MAX.into()),
            "UInt64" => integer(0, i64::MAX),
            "Float32" | "Float64" => {
                let number = text.trim().parse().ok().filter(|number: &f64| number.is_finite());
                number.map(ReferenceValue::Number)
            }
            _ => Some(ReferenceValue::Text(text.to_owned())),
        }
    }

    /// As JSON, like the values of groups.
    pub(crate) fn json(&self) -> Value {
        match self {
            ReferenceValue::Text(text) => Value::from(text.as_str()),
            ReferenceValue::Integer(number) => Value::from(*number),
            ReferenceValue::Number(number) => Value::from(*number),
            ReferenceValue::Truth(value) => Value::from(*value),
        }
    }

    /// As it is written in messages, like the values of groups.
    pub(crate) fn label(&self) -> String {
        match self {
            ReferenceValue::Text(text) => text.clone(),
            other => other.json().to_string(),
        }
    }

    /// As a literal of RTLola.
    pub(crate) fn literal(&self) -> String {
        match self {
            // In a raw literal nothing is escaped, and it ends at a quote with as many signs as it begins with.
            ReferenceValue::Text(text) if text.contains(['"', '\\']) => {
                let mut signs = "#".to_owned();
                while text.contains(&format!("\"{signs}")) {
                    signs.push('#');
                }
                format!("r{signs}\"{text}\"{signs}")
            }
            ReferenceValue::Text(text) => format!("\"{text}\""),
            ReferenceValue::Integer(number) => number.to_string(),
            ReferenceValue::Number(number) => match format!("{number}") {
                text if text.contains('.') => text,
                text => format!("{text}.0"),
            },
            ReferenceValue::Truth(value) => value.to_string(),
        }
    }
}

impl FairnessFile {
    /// The values of the group that others are compared with, as the file writes them, in the order of the columns;
    /// `None` if every group is compared with every other.
    pub(crate) fn reference(&self, metric: &Metric) -> Option<Vec<&Located<String>>> {
        if metric.kind.comparison() == Comparison::Highest {
            return None;
        }
        let of = |group: &Located<String>| self.group_column(&group.value)?.reference.as_ref();
        let values: Option<Vec<_>> = metric.groups.iter().map(of).collect();
        values.filter(|values| !values.is_empty())
    }

    /// What is wrong with the references of definitions, and of combinations of columns.
    pub(crate) fn reference_problems(&self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = self.groups.iter().filter_map(wrong_reference).collect();
        for (index, definition) in self.groups.iter().enumerate() {
            let text = |of: &GroupColumn| of.reference.as_ref().map(|reference| reference.value.clone());
            let same_name = |other: &&GroupColumn| other.name.value == definition.name.value;
            let earlier = self.groups[..index].iter().find(same_name);
            if earlier.is_some_and(|earlier| text(earlier) != text(definition)) {
                let message =
                    format!("`{}` is defined twice, with different references", definition.name.value);
                let help = "give one of them a name of its own: `name = …`";
                problems.push(Problem::new(definition.name.at.range(), message).help(help));
            }
        }
        let mut seen: Vec<&Located<String>> = Vec::new();
        for metric in self.metrics.iter().filter(|metric| metric.kind.comparison() != Comparison::Highest) {
            let has_reference = |group: &&Located<String>| {
                self.group_column(&group.value).is_some_and(|definition| definition.reference.is_some())
            };
            let (with, without): (Vec<_>, Vec<_>) = metric.groups.iter().partition(has_reference);
            if let ([with, ..], [without, ..]) = (with.as_slice(), without.as_slice())
                && !seen.contains(without)
            {
                seen.push(without);
                let message = format!(
                    "`{}` has a reference and `{}` has none, so no combination of both is the reference",
                    with.value, without.value
                );
                let help = format!(
                    "give `{}` one as well, as in [groups] {} = {{ reference = … }}; or compare this combination in a \
                     [[fairness]] of its own, by columns without one",
                    without.value, without.value
                );
                problems.push(Problem::new(without.at.range(), message).help(help));
            }
        }
        problems
    }
}

impl Compiled {
    /// References that are not among the first values of their columns, in words.
    pub fn unseen_references(&self, samples: &[ColumnSample]) -> Vec<String> {
        let mut unseen: Vec<String> = Vec::new();
        let file = self.file();
        for metric in file.metrics.iter().filter(|metric| file.reference(metric).is_some()) {
            for definition in metric.groups.iter().filter_map(|group| file.group_column(&group.value)) {
                let of_column = samples.iter().filter(|sample| sample.name == definition.column.value);
                let found: Option<Vec<String>> =
                    of_column.map(|sample| unseen_in(definition, sample)).collect();
                let first = found.into_iter().flatten().next();
                unseen.extend(first.filter(|sentence| !unseen.contains(sentence)));
            }
        }
        unseen
    }

    /// Whether any metric has a reference.
    pub fn has_references(&self) -> bool {
        self.rules().iter().any(|rule| rule.reference.is_some())
    }
}

/// A sentence if the reference of a definition is none of the groups in a sample; `None` if there are no values.
fn unseen_in(definition: &GroupColumn, sample: &ColumnSample) -> Option<String> {
    const SHOWN: usize = 5;
    let (reference, grouping) = (definition.reference.as_ref()?, &definition.grouping);
    let data_type = if grouping.is_text() { "String".to_owned() } else { sample.column().data_type };
    let wanted = ReferenceValue::parse(&reference.value, &data_type);
    let mut groups: Vec<String> = Vec::new();
    for value in sample.present() {
        let group = match grouping.bins.is_empty() {
            true => grouping.group(value).map(str::to_owned),
            false => value
                .parse()
                .ok()
                .and_then(|number| grouping.bin(number))
                .map(|bin| grouping.name_of_bin(bin)),
        };
        let Some(group) = group else { continue };
        if ReferenceValue::parse(&group, &data_type) == wanted {
            return None;
        }
        if !groups.contains(&group) && groups.len() < SHOWN {
            groups.push(group);
        }
    }
    let seen = list(groups.iter().map(String::as_str));
    (!groups.is_empty()).then(|| {
        format!(
            "the reference `{}` is not among the first groups of `{}`, such as {seen}: without it, nothing is compared",
            reference.value, definition.name.value
        )
    })
}

/// What is wrong with the reference of a definition, as far as the file tells.
fn wrong_reference(definition: &GroupColumn) -> Option<Problem> {
    let GroupColumn { reference, grouping, .. } = definition;
    let reference = reference.as_ref()?;
    let Grouping { bins, labels, except } = grouping;
    let text = &reference.value;
    let problem = |message: String| Problem::new(reference.at.range(), message);
    let bins: Vec<String> =
        (0..=bins.len()).filter(|_| !bins.is_empty()).map(|bin| grouping.name_of_bin(bin)).collect();
    if !bins.is_empty() && !bins.contains(text) {
        let help = format!("there are {}", list(bins.iter().map(String::as_str)));
        return Some(problem(format!("there is no bin `{text}`")).help(help));
    }
    let of_label = || labels.iter().filter(|(_, label)| label == text);
    if let Some((_, label)) =
        labels.iter().find(|(value, _)| value == text).filter(|_| of_label().count() == 0)
    {
        let help = format!("name the group: `reference = {}`", toml_text(label));
        return Some(problem(format!("`{text}` is the value of the group `{label}`")).help(help));
    }
    let is_left_out = of_label().count() > 0 && of_label().all(|(value, _)| except.contains(value));
    if is_left_out || except.contains(text) {
        let help = "name another reference, or remove it from `except`";
        return Some(problem(format!("the reference `{text}` is left out by `except`")).help(help));
    }
    None
}
