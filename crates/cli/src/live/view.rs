//! Draws a view model as lines of text. Knows neither the run nor the terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::screen::To;
use super::view_model::{GroupModel, RateModel, ViewModel};
use crate::progress::{counted, grouped};

/// State of the live view.
#[derive(Debug)]
pub(super) struct LiveView {
    is_coloured: bool,
    /// Index of the first line of the rates that is shown.
    top: usize,
}

/// Maximum number of groups of a rate that are shown; of more, those that are furthest apart.
const GROUPS: usize = 8;
/// Maximum height of the list of alarms, in lines.
const ALARMS: u16 = 6;

impl LiveView {
    pub(super) fn new(is_coloured: bool) -> LiveView {
        LiveView { is_coloured, top: 0 }
    }

    /// Scrolls down by a number of lines; up if it is negative.
    pub(super) fn scroll(&mut self, lines: isize) {
        self.top = self.top.saturating_add_signed(lines);
    }

    /// Draws a run; `latest` returns the last lines of an output that is held back.
    pub(super) fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        model: &ViewModel,
        latest: impl Fn(To, usize) -> Vec<String>,
    ) {
        let alarms = latest(To::Output, ALARMS.into());
        let room = match alarms.len() {
            0 => 0,
            // The list gets at most a third of the screen, since rates are more important.
            count => (count as u16 + 1).min(frame.area().height / 3),
        };
        let [head, body, below, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Min(1),
            Constraint::Length(room),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head(model, head.width.into())), head);
        let mut lines = self.body(model, body.width.into());
        self.top = self.top.min(lines.len().saturating_sub(body.height.into()));
        let hidden = lines.len().saturating_sub(self.top + usize::from(body.height));
        frame.render_widget(Paragraph::new(lines.split_off(self.top)), body);
        if room > 0 {
            let title = Line::styled("latest", self.dim());
            let skipped = alarms.len().saturating_sub(usize::from(room) - 1);
            let shown = alarms[skipped..].iter().map(|line| Line::raw(close(&plain(line))));
            frame.render_widget(
                Paragraph::new(std::iter::once(title).chain(shown).collect::<Vec<_>>()),
                below,
            );
        }
        let note = latest(To::Error, 1).pop().map(|note| plain(&note));
        frame.render_widget(Paragraph::new(self.foot(note, hidden)), foot);
    }

    fn head(&self, model: &ViewModel, width: usize) -> Vec<Line<'static>> {
        let seconds = model.elapsed.as_secs();
        let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let title = format!("{:<room$}", model.title, room = width.saturating_sub(clock.len() + 1));
        vec![
            Line::from(vec![Span::styled(title, Modifier::BOLD), Span::raw(format!(" {clock}"))]),
            Line::raw(model.progress()),
            Line::styled("─".repeat(width), self.dim()),
        ]
    }

    fn body(&self, model: &ViewModel, width: usize) -> Vec<Line<'static>> {
        if model.rates.is_empty() {
            let text = if model.is_judged {
                "No trial has been counted yet."
            } else {
                "Violations are listed below."
            };
            return vec![Line::raw(text)];
        }
        let mut lines = Vec::new();
        for (place, rate) in model.rates.iter().enumerate() {
            if place > 0 {
                lines.push(Line::default());
            }
            self.rate(rate, width, &mut lines);
        }
        if model.left_out > 0 {
            lines.push(Line::raw(format!("{} more are not shown", grouped(model.left_out as u64))));
        }
        lines
    }

    fn rate(&self, rate: &RateModel, width: usize, lines: &mut Vec<Line<'static>>) {
        let state = match rate.alarm {
            Some(_) => Span::styled(rate.state(), self.alarming()),
            None => Span::raw(rate.state()),
        };
        lines.push(Line::from(vec![Span::styled(format!("{}  ", rate.title), Modifier::BOLD), state]));
        let trend = trend(&rate.trend, width.saturating_sub(rate.gap.chars().count() + 6).min(60));
        lines.push(Line::from(vec![Span::raw(format!("  {}  ", rate.gap)), Span::styled(trend, self.dim())]));
        let groups = shown(&rate.groups);
        let name =
            groups.iter().map(|group| Span::raw(group.name.as_str()).width()).max().unwrap_or(0).min(24);
        let basis = groups.iter().map(|group| group.basis.chars().count()).max().unwrap_or(0);
        let number = groups.iter().map(|group| group.shown.chars().count()).max().unwrap_or(0);
        let room = width.saturating_sub(name + basis + number + 8).min(60);
        // Rates are drawn on a scale from 0 to 1; other numbers relative to the largest.
        let largest = groups.iter().filter_map(|group| group.estimate).fold(1.0, f64::max);
        let hidden = rate.groups.len() - groups.len();
        for (place, group) in groups.iter().enumerate() {
            if hidden > 0 && place == GROUPS / 2 {
                lines.push(Line::styled(format!("  … {} between", grouped(hidden as u64)), self.dim()));
            }
            let (bar, is_beyond) = bar(group, [rate.limit, rate.upper_limit], largest, room);
            let bar = if is_beyond && rate.alarm.is_some() {
                Span::styled(bar, self.alarming())
            } else {
                Span::raw(bar)
            };
            lines.push(Line::from(vec![
                Span::raw(format!("  {} {:>number$} ", fitted(&group.name, name), group.shown)),
                bar,
                Span::raw(format!("  {}", group.basis)),
            ]));
        }
    }

    fn foot(&self, note: Option<String>, hidden: usize) -> Line<'static> {
        if let Some(note) = note {
            return Line::raw(note);
        }
        let more = if hidden > 0 {
            format!("↓ {} more · ", counted(hidden as u64, "line"))
        } else {
            String::new()
        };
        Line::styled(format!("{more}q or Ctrl-C stops in good order · ↑ ↓ scroll"), self.dim())
    }

    fn dim(&self) -> Style {
        if self.is_coloured { Style::new().add_modifier(Modifier::DIM) } else { Style::new() }
    }

    fn alarming(&self) -> Style {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        if self.is_coloured { bold.fg(Color::Red) } else { bold }
    }
}

/// All groups; if there are many, the highest and the lowest.
fn shown(groups: &[GroupModel]) -> Vec<&GroupModel> {
    let mut shown: Vec<&GroupModel> = groups.iter().collect();
    if groups.len() > GROUPS {
        let by = |group: &GroupModel| group.estimate.unwrap_or(f64::NAN);
        shown.retain(|group| group.estimate.is_some());
        shown.sort_by(|a, b| by(b).total_cmp(&by(a)));
        let count = shown.len();
        if count > GROUPS {
            shown.drain(GROUPS / 2..count - GROUPS / 2);
        }
    }
    shown
}

/// An estimate as a bar with marks at the limits of the tolerance, a lower and an upper one, and whether the estimate is
/// beyond them.
fn bar(group: &GroupModel, limits: [Option<f64>; 2], largest: f64, room: usize) -> (String, bool) {
    let place = |value: f64| (value / largest * room as f64).round().clamp(0.0, room as f64) as usize;
    let filled = group.estimate.map_or(0, place);
    let marks = limits.map(|limit| limit.map(place).filter(|mark| *mark < room));
    let cell = |at: usize| match (at < filled, marks.contains(&Some(at))) {
        (_, true) => '┊',
        (true, false) => '█',
        (false, false) => '·',
    };
    let [lower, upper] = limits.map(|limit| group.estimate.zip(limit));
    let is_beyond = lower.is_some_and(|(estimate, limit)| estimate < limit)
        || upper.is_some_and(|(estimate, limit)| estimate > limit);
    ((0..room).map(cell).collect(), is_beyond)
}

/// A sparkline of values. Each character shows the maximum of its values.
fn trend(values: &[f64], room: usize) -> String {
    const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    if values.is_empty() || room == 0 {
        return String::new();
    }
    let top = values.iter().copied().fold(0.0, f64::max).max(1e-9);
    let columns = room.min(values.len());
    let column = |at: usize| {
        let stretch = &values[at * values.len() / columns..(at + 1) * values.len() / columns];
        let most = stretch.iter().copied().fold(0.0, f64::max);
        STEPS[((most / top * 7.0).round().clamp(0.0, 7.0)) as usize]
    };
    (0..columns).map(column).collect()
}

/// Collapses runs of spaces, since room is scarce.
fn close(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Truncates or pads a name to a width.
fn fitted(name: &str, room: usize) -> String {
    let mut text = String::new();
    let mut width = 0;
    for letter in plain(name).chars() {
        let wide = Span::raw(letter.to_string()).width();
        if width + wide > room {
            break;
        }
        text.push(letter);
        width += wide;
    }
    text + &" ".repeat(room - width)
}

/// Removes escape sequences and control characters.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => letters.by_ref().take_while(|c| !c.is_ascii_alphabetic()).for_each(drop),
            letter if letter.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairstream_core::{RunCounts, Time};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::time::Duration;

    fn group(name: &str, estimate: f64) -> GroupModel {
        GroupModel {
            name: name.to_owned(),
            estimate: Some(estimate),
            shown: format!("{estimate:.3}"),
            basis: "1 of 2".to_owned(),
        }
    }

    fn model(groups: Vec<GroupModel>) -> ViewModel {
        let second = |seconds: i64| Time(seconds * 1_000_000_000);
        let counts =
            RunCounts { evaluated: 1234, alarms: 1, reached: Some(second(600)), ..RunCounts::default() };
        ViewModel {
            title: "Hiring".to_owned(),
            elapsed: Duration::from_secs(3725),
            counts,
            is_judged: true,
            by_rows: false,
            per_second: 500,
            open_trials: Some(7),
            rates: vec![RateModel {
                title: "demographic parity".to_owned(),
                alarm: Some(second(90).for_people()),
                raised: 1,
                gap: "gap 0.300 of 0.1 allowed".to_owned(),
                trend: vec![0.0, 0.1, 0.3],
                limit: Some(0.4),
                groups,
                ..RateModel::default()
            }],
            left_out: 0,
        }
    }

    /// The lines of the screen without trailing spaces.
    fn drawn(
        view: &mut LiveView,
        model: &ViewModel,
        (width, height): (u16, u16),
        latest: &[&str],
    ) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let lines = |to, count: usize| match to {
            To::Output => latest.iter().rev().take(count).rev().map(|line| (*line).to_owned()).collect(),
            To::Error => Vec::new(),
        };
        terminal.draw(|frame| view.draw(frame, model, lines)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn everything_has_its_place() {
        let model = model(vec![group("F", 0.2), group("M", 0.5)]);
        let screen = drawn(&mut LiveView::new(false), &model, (60, 12), &["90s      ALARM  who\u{1b}[0m"]);
        assert_eq!(
            screen,
            [
                "Hiring                                              01:02:05",
                "1,234 events  500/s  reached 600s  7 open trials  1 alarm",
                "────────────────────────────────────────────────────────────",
                "demographic parity  ALARM since 90s",
                "  gap 0.300 of 0.1 allowed  ▁▃█",
                "  F 0.200 ████████········┊·······················  1 of 2",
                "  M 0.500 ████████████████┊███····················  1 of 2",
                "",
                "",
                "latest",
                "90s ALARM who",
                "q or Ctrl-C stops in good order · ↑ ↓ scroll",
            ]
        );
    }

    /// Any size, names and numbers can be drawn, and scrolling stays within bounds.
    #[test]
    fn a_terminal_may_have_any_size() {
        let names = ["", "名前が長い".repeat(9).as_str(), "a\u{1b}[31mb\tc"].map(str::to_owned);
        let groups = (0..40).map(|number| group(&format!("{number}{}", names[number % 3]), number as f64));
        let mut odd: Vec<GroupModel> = groups.collect();
        odd.push(GroupModel::default());
        odd.push(group("nan", f64::NAN));
        odd.push(group("inf", f64::INFINITY));
        let model = model(odd);
        let mut view = LiveView::new(true);
        for size in (0..=60).flat_map(|width| [0, 1, 2, 3, 5, 8, 30].map(|height| (width, height))) {
            view.scroll(size.0 as isize - 30);
            let screen = drawn(&mut view, &model, size, &["one", "two"]);
            assert!(!screen.concat().contains(['\u{1b}', '\t']), "{screen:?}");
        }
        view.scroll(isize::MAX);
        let screen = drawn(&mut view, &model, (60, 12), &[]);
        assert!(screen[..11].iter().any(|line| line.ends_with("1 of 2")), "{screen:?}");
        view.scroll(isize::MIN);
        let screen = drawn(&mut view, &model, (60, 12), &[]);
        assert!(screen[3].starts_with("demographic parity") && screen[11].starts_with("↓ "), "{screen:?}");
    }

    /// Each character shows a maximum, so no peak is lost.
    #[test]
    fn a_peak_is_seen_in_a_narrow_trend() {
        let mut values = vec![0.1; 1000];
        values[537] = 1.0;
        let trend = trend(&values, 20);
        assert_eq!(trend.chars().count(), 20);
        assert_eq!(trend.chars().position(|step| step == '█'), Some(537 / 50));
    }
}
