//! Error message for a missing time column.

use fairstream_core::nearest;

use crate::shortened;

/// There is no time column `name` among these columns; suggests others.
pub fn no_time_column(name: &str, columns: &[String]) -> String {
    const USUAL_TIMES: [&str; 6] = ["timestamp", "ts", "date", "datetime", "event_time", "created_at"];
    let usual = |column: &&str| USUAL_TIMES.iter().any(|usual| column.eq_ignore_ascii_case(usual));
    let all = || columns.iter().map(String::as_str);
    let hint = match all().find(usual).or_else(|| nearest(name, all())) {
        Some(near) => format!("`--time {near}`, perhaps"),
        None => "say which with `--time COLUMN`".to_owned(),
    };
    let names: Vec<String> = columns.iter().map(|name| format!("`{}`", shortened(name))).collect();
    format!(
        "there is no column `{name}` that says when a row happened; {hint}, or take rows in their order with \
         `--time row` (columns: {})",
        names.join(", ")
    )
}
