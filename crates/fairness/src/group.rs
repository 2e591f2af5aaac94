//! Groups: the columns whose values, or combinations of values, are compared; bins, labels and values to leave out; the
//! group that others are compared with.

use crate::Problem;
use crate::table::{Located, TomlEntry, TomlTable};

/// A column of groups that is made from a column of the data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupColumn {
    pub(crate) name: Located<String>,
    /// The column of the data.
    pub(crate) column: Located<String>,
    /// How values become groups.
    pub(crate) grouping: Grouping,
    /// The group that the others are compared with, as the file writes it.
    pub(crate) reference: Option<Located<String>>,
}

impl GroupColumn {
    /// Whether its groups are the values of the column of its name: it says nothing but a reference.
    pub(crate) fn is_column(&self) -> bool {
        self.reference.is_some()
            && self.grouping == Grouping::default()
            && self.name.value == self.column.value
    }
}

/// How values become groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grouping {
    /// Lower ends of the bins, but for the first, in ascending order; empty if values are not numbers in bins.
    pub(crate) bins: Vec<f64>,
    /// Values and the groups that they stand for. Other values are their own groups.
    pub(crate) labels: Vec<(String, String)>,
    /// Values, as in the data or as labels, that are in no group.
    pub(crate) except: Vec<String>,
}

impl Grouping {
    /// Whether groups are text, whatever the type of the column.
    pub(crate) fn is_text(&self) -> bool {
        !self.bins.is_empty() || !self.labels.is_empty()
    }

    /// The index of the bin of a number; `None` if it is not a number.
    pub(crate) fn bin(&self, number: f64) -> Option<usize> {
        (!number.is_nan()).then(|| self.bins.partition_point(|low| *low <= number))
    }

    /// The name of a bin: `under 25`, `25 to under 40`, `40 or more`.
    pub(crate) fn name_of_bin(&self, bin: usize) -> String {
        match (bin.checked_sub(1).and_then(|before| self.bins.get(before)), self.bins.get(bin)) {
            (Some(low), Some(high)) => format!("{low} to under {high}"),
            (Some(low), None) => format!("{low} or more"),
            (None, Some(high)) => format!("under {high}"),
            (None, None) => String::new(),
        }
    }

    /// The group of a value; `None` if it is left out.
    pub(crate) fn group<'a>(&'a self, value: &'a str) -> Option<&'a str> {
        let label = self.labels.iter().find(|(known, _)| known == value).map(|(_, label)| label.as_str());
        let group = label.unwrap_or(value);
        let is_left_out = |name: &str| self.except.iter().any(|except| except == name);
        (!is_left_out(value) && !is_left_out(group)).then_some(group)
    }
}

/// The columns whose combinations of values are compared.
pub(crate) type Combination = Vec<Located<String>>;

/// Reads `[groups]`.
pub(crate) fn definitions(table: &TomlTable<'_>) -> Vec<GroupColumn> {
    let mut found = Vec::new();
    for entry in table.entries() {
        match entry.table() {
            Some(table) => found.extend(definition(table, Some(entry.key.clone()))),
            None => entry.wrong("a table such as { column = \"age\", bins = [25, 40, 65] }"),
        }
    }
    found
}

/// Reads `group`: a column, or a list of columns whose combinations are compared, or a list of such lists, which are
/// compared one after another. A table in place of a column is a definition of its own.
pub(crate) fn combinations(
    table: &TomlTable<'_>,
    definitions: &mut Vec<GroupColumn>,
) -> Option<Vec<Combination>> {
    let entry = table.entry("group")?;
    let mut column = |entry: &TomlEntry<'_>| -> Option<Located<String>> {
        if let Some(name) = entry.text() {
            return Some(name);
        }
        let Some(table) = entry.table() else {
            entry.wrong("a column, a list of columns, or { column = …, bins = … }");
            return None;
        };
        let definition = definition(table, None)?;
        let name = definition.name.clone();
        if !definitions.contains(&definition) {
            definitions.push(definition);
        }
        Some(name)
    };
    let Some(items) = entry.items() else { return Some(vec![vec![column(&entry)?]]) };
    if items.iter().all(|item| item.items().is_none()) {
        return Some(vec![items.iter().map(&mut column).collect::<Option<_>>()?]);
    }
    let combination = |item: &TomlEntry<'_>| match item.items() {
        Some(items) => items.iter().map(&mut column).collect(),
        None => Some(vec![column(item)?]),
    };
    items.iter().map(combination).collect()
}

/// Reads a definition; `name` is the key of `[groups]` that it stands behind.
fn definition(table: TomlTable<'_>, name: Option<Located<String>>) -> Option<GroupColumn> {
    let column = table.text("column");
    if column.is_none() && !table.has("column") && name.is_none() {
        table.missing("column", "it is the column of the data");
    }
    let own_name = if name.is_none() { table.text("name") } else { None };
    let bins = table.numbers("bins").unwrap_or_default();
    if !bins.value.is_sorted_by(|one, next| one < next) {
        table.problem(Problem::new(bins.at.range(), "`bins` have to ascend, such as [25, 40, 65]"));
    }
    let mut labels = Vec::new();
    for entry in table.table("labels").map(|labels| labels.entries()).unwrap_or_default() {
        match entry.text() {
            Some(label) => labels.push((entry.key.value, label.value)),
            None => entry.wrong("the name of the group, such as \"female\""),
        }
    }
    let except = table.texts("except").unwrap_or_default();
    let reference = table.value_text("reference");
    let at = table.at.clone();
    if !bins.value.is_empty() && !labels.is_empty() {
        let help = "bins are named by their ends";
        table.problem(Problem::new(at.range(), "there are `bins` or `labels`, not both").help(help));
    }
    table.finish();
    // Without `column`, a definition in [groups] is about the column of its own name.
    let column = column.or_else(|| name.clone())?;
    Some(GroupColumn {
        name: name.or(own_name).unwrap_or_else(|| column.clone()),
        column,
        grouping: Grouping {
            bins: bins.value,
            labels,
            except: except.into_iter().map(|value| value.value).collect(),
        },
        reference,
    })
}
