//! Charts of rates over time, drawn with characters.

use std::fmt::Write;

use fairstream_core::Time;

/// A line of a chart: a name and a step function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(Time, f64)>,
}

impl Line {
    /// The latest value at each column.
    fn values(&self, column_of: impl Fn(Time) -> usize) -> impl Iterator<Item = Option<f64>> {
        let mut points = self.points.iter().peekable();
        let mut value = None;
        (0..WIDTH).map(move |column| {
            while let Some((_, next)) = points.next_if(|(time, _)| column_of(*time) <= column) {
                value = Some(*next);
            }
            value
        })
    }
}

/// A chart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// Lines, each drawn with the first letter of its name.
    pub(crate) lines: Vec<Line>,
    /// Alarms: when each was raised, and when it was cleared, if it was.
    pub(crate) alarms: Vec<(Time, Option<Time>)>,
}

impl Chart {
    /// When the first alarm was raised, if any was.
    pub(crate) fn first_alarm(&self) -> Option<Time> {
        self.alarms.first().map(|(raised, _)| *raised)
    }
}

const WIDTH: usize = 64;

/// Height of a row.
const STEP: f64 = 0.05;

impl Chart {
    /// Draws the chart with its axes, and a bar for the periods of alarms below.
    pub(crate) fn draw(&self) -> String {
        let times = || self.lines.iter().flat_map(|line| line.points.iter().map(|(time, _)| *time));
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return String::new() };
        let highest = self.lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
        // Rounded up to full tenths, so that the labels of the axis are round.
        let top = ((highest.fold(0.0, f64::max) * 10.0).ceil() / 10.0).max(0.1);
        let height = (top / STEP).round() as usize + 1;
        let span = (last.0.saturating_sub(first.0)).max(1) as f64;
        let column_of = |time: Time| {
            ((time.0.saturating_sub(first.0)) as f64 / span * (WIDTH - 1) as f64).round() as usize
        };
        let mut cells = vec![vec![' '; WIDTH]; height];
        for line in &self.lines {
            let letter = line.name.chars().next().unwrap_or('*');
            for (column, value) in line.values(column_of).enumerate() {
                let Some(value) = value else { continue };
                let row = ((top - value) / STEP).round().max(0.0) as usize;
                let cell = &mut cells[row.min(height - 1)][column];
                // Where lines meet, `*` is drawn.
                *cell = if *cell == ' ' { letter } else { '*' };
            }
        }
        let mut text = String::new();
        for (row, cells) in cells.iter().enumerate() {
            let value = top - row as f64 * STEP;
            let cells: String = cells.iter().collect();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}", format!("  {:.2} │{cells}", value.max(0.0)).trim_end());
        }
        let _ = writeln!(text, "       └{}", "─".repeat(WIDTH));
        let (from, to) = (first.for_people(), last.for_people());
        let _ = writeln!(text, "        {from}{to:>width$}", width = WIDTH.saturating_sub(from.len()));
        let is_alarming = |column: usize| {
            self.alarms.iter().any(|(raised, cleared)| {
                column_of(*raised) <= column && cleared.is_none_or(|cleared| column < column_of(cleared))
            })
        };
        let bar: String = (0..WIDTH).map(|column| if is_alarming(column) { '█' } else { ' ' }).collect();
        if !self.alarms.is_empty() {
            let _ = writeln!(text, " alarm  {}", bar.trim_end());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_where_their_values_are_and_alarms_where_they_were() {
        let second = |seconds: i64| Time(seconds * 1_000_000_000);
        let line = |name: &str, points: &[(i64, f64)]| Line {
            name: name.to_owned(),
            points: points.iter().map(|(time, value)| (second(*time), *value)).collect(),
        };
        let chart = Chart {
            lines: vec![line("M", &[(0, 0.5), (100, 0.5)]), line("F", &[(0, 0.5), (50, 0.25), (100, 0.25)])],
            alarms: vec![(second(50), Some(second(75))), (second(90), None)],
        };
        let drawn = chart.draw();
        let rows: Vec<&str> = drawn.lines().collect();
        assert!(rows[0].starts_with("  0.50 │***") && rows[0].ends_with("MMM"), "{drawn}");
        assert!(rows[5].ends_with(&"F".repeat(32)), "{drawn}");
        assert!(rows[12].starts_with("        0s") && rows[12].ends_with("100s"), "{drawn}");
        let bar = rows[13].strip_prefix(" alarm  ").unwrap();
        assert_eq!(bar.chars().filter(|c| *c == '█').count(), 15 + 7, "{drawn}");
        assert!(Chart::default().draw().is_empty());
    }
}
