//! A run as a screen: from what is to be shown to lines of text. Knows neither the run nor the terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::screen::To;
use super::sight::{Bar, Moving, Sight};
use crate::progress::grouped;

/// How a run is looked at.
#[derive(Debug)]
pub(super) struct View {
    is_coloured: bool,
    /// The first line of the rates that is shown.
    top: usize,
}

/// Groups of a rate that are shown; of more, those that are furthest apart.
const GROUPS: usize = 8;
/// Room for the last alarms, at most.
const ALARMS: u16 = 6;

impl View {
    pub(super) fn new(is_coloured: bool) -> View {
        View { is_coloured, top: 0 }
    }

    /// Down by so many lines, or up.
    pub(super) fn scroll(&mut self, lines: isize) {
        self.top = self.top.saturating_add_signed(lines);
    }

    /// Draws a run; `latest` has the last lines that were to be printed or noted.
    pub(super) fn draw(
        &mut self,
        frame: &mut Frame<'_>,
        sight: &Sight,
        latest: impl Fn(To, usize) -> Vec<String>,
    ) {
        let alarms = latest(To::Output, ALARMS.into());
        let room = match alarms.len() {
            0 => 0,
            // The rates are what it is about: they get no less than half.
            count => (count as u16 + 1).min(frame.area().height / 3),
        };
        let [head, body, below, foot] = Layout::vertical([
            Constraint::Length(3),
            Constraint::Min(1),
            Constraint::Length(room),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head(sight, head.width.into())), head);
        let mut lines = self.body(sight, body.width.into());
        self.top = self.top.min(lines.len().saturating_sub(body.height.into()));
        let hidden = lines.len().saturating_sub(self.top + usize::from(body.height));
        frame.render_widget(Paragraph::new(lines.split_off(self.top)), body);
        if room > 0 {
            let title = Line::styled("latest", self.dim());
            let skipped = alarms.len().saturating_sub(usize::from(room) - 1);
            let shown = alarms[skipped..].iter().map(|line| Line::raw(plain(line)));
            frame.render_widget(
                Paragraph::new(std::iter::once(title).chain(shown).collect::<Vec<_>>()),
                below,
            );
        }
        let note = latest(To::Error, 1).pop().map(|note| plain(&note));
        frame.render_widget(Paragraph::new(self.foot(note, hidden)), foot);
    }

    fn head(&self, sight: &Sight, width: usize) -> Vec<Line<'static>> {
        let seconds = sight.elapsed.as_secs();
        let clock = format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
        let title = format!("{:<room$}", sight.title, room = width.saturating_sub(clock.len() + 1));
        vec![
            Line::from(vec![Span::styled(title, Modifier::BOLD), Span::raw(format!(" {clock}"))]),
            Line::raw(sight.progress()),
            Line::styled("─".repeat(width), self.dim()),
        ]
    }

    fn body(&self, sight: &Sight, width: usize) -> Vec<Line<'static>> {
        if sight.rates.is_empty() {
            let text = if sight.is_judged {
                "No trial has been counted yet."
            } else {
                "Violations are listed below."
            };
            return vec![Line::raw(text)];
        }
        let mut lines = Vec::new();
        for rate in &sight.rates {
            self.rate(rate, width, &mut lines);
            lines.push(Line::default());
        }
        if sight.left_out > 0 {
            lines.push(Line::raw(format!("{} more are not shown", grouped(sight.left_out as u64))));
        }
        lines
    }

    fn rate(&self, rate: &Moving, width: usize, lines: &mut Vec<Line<'static>>) {
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
        // Rates have a scale of their own; other numbers are held against the largest.
        let largest = groups.iter().filter_map(|group| group.estimate).fold(1.0, f64::max);
        let hidden = rate.groups.len() - groups.len();
        for (place, group) in groups.iter().enumerate() {
            if hidden > 0 && place == GROUPS / 2 {
                lines.push(Line::styled(format!("  … {} between", grouped(hidden as u64)), self.dim()));
            }
            let (bar, is_beyond) = bar(group, rate.limit, largest, room);
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
        let more = if hidden > 0 { format!("↓ {hidden} more lines · ") } else { String::new() };
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

/// All groups; of many, the highest and the lowest.
fn shown(groups: &[Bar]) -> Vec<&Bar> {
    let mut shown: Vec<&Bar> = groups.iter().collect();
    if groups.len() > GROUPS {
        let by = |group: &Bar| group.estimate.unwrap_or(f64::NAN);
        shown.retain(|group| group.estimate.is_some());
        shown.sort_by(|a, b| by(b).total_cmp(&by(a)));
        let count = shown.len();
        if count > GROUPS {
            shown.drain(GROUPS / 2..count - GROUPS / 2);
        }
    }
    shown
}

/// An estimate as a bar, with a mark where the tolerance ends; and whether it is beyond.
fn bar(group: &Bar, limit: Option<f64>, largest: f64, room: usize) -> (String, bool) {
    let place = |value: f64| (value / largest * room as f64).round().clamp(0.0, room as f64) as usize;
    let filled = group.estimate.map_or(0, place);
    let mark = limit.map(place).filter(|mark| *mark < room);
    let cell = |at: usize| match (at < filled, mark == Some(at)) {
        (_, true) => '┊',
        (true, false) => '█',
        (false, false) => '·',
    };
    let is_beyond = group.estimate.zip(limit).is_some_and(|(estimate, limit)| estimate < limit);
    ((0..room).map(cell).collect(), is_beyond)
}

/// How something moved, in one line; of each stretch the extreme that is further from the middle.
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

/// A name in exactly so much room.
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

/// Without what moves the cursor or changes colours: only the view does that.
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
