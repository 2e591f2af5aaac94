//! A report as one HTML page, without scripts or external resources; for screens, light and dark, and for print.

use std::fmt::Write;

use crate::LinePlot;
use crate::svg::escaped;

/// The content of a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Name of what was monitored.
    pub title: String,
    /// Time range and number of events.
    pub subtitle: String,
    /// The overall state.
    pub state: State,
    /// The question of the rate that the first sentence is about.
    pub question: String,
    /// The verdict, in a sentence or two.
    pub verdict: Vec<String>,
    /// How certain the verdict is.
    pub certainty: String,
    /// Definition of a trial.
    pub trial: String,
    /// One section for each rate and stratum.
    pub sections: Vec<Section>,
    /// Number of sections that are left out.
    pub left_out: usize,
    /// Data quality: names and values.
    pub quality: Vec<(String, String)>,
    /// Texts such as the specification: names and texts.
    pub texts: Vec<(String, String)>,
    /// The command to repeat the run.
    pub again: String,
    /// Name and version of the program that wrote it.
    pub made_by: String,
}

/// State of a rate or of the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// There is an alarm.
    Unfair,
    /// There was an alarm, and none is now.
    Cleared,
    /// The evidence shows that the tolerance is met.
    Fair,
    /// There is no alarm, and the rule does not assess evidence.
    NoAlarm,
    /// There is too little evidence for either.
    #[default]
    Unknown,
}

impl State {
    /// Name of the state, as colour alone is not accessible to all readers.
    pub fn name(self) -> &'static str {
        match self {
            State::Unfair => "unfair",
            State::Fair => "fair so far",
            State::Cleared => "no alarm now",
            State::NoAlarm => "no alarm",
            State::Unknown => "not enough evidence yet",
        }
    }

    fn class(self) -> &'static str {
        match self {
            State::Unfair => "unfair",
            State::Fair => "fair",
            State::Cleared | State::NoAlarm | State::Unknown => "unknown",
        }
    }
}

/// One rate, in one stratum.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// What it is called.
    pub title: String,
    /// What is asked.
    pub question: String,
    /// Its state.
    pub state: State,
    /// The verdict.
    pub verdict: String,
    /// Explanation of the rule.
    pub judged: String,
    /// Rates over time.
    pub figure: Option<LinePlot>,
    /// A word for what is counted or summed over a group's trials.
    pub counted: String,
    /// Every group.
    pub groups: Vec<Group>,
    /// Parameters: name, value, and meaning.
    pub parameters: Vec<[String; 3]>,
    /// Every alarm.
    pub alarms: Vec<Alarm>,
}

/// The numbers of a group, formatted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Number of trials that count.
    pub trials: String,
    /// Number of positive trials, or the sum.
    pub positives: String,
    /// Number of pending trials.
    pub pending: String,
    /// Number of trials whose outcome is not known.
    pub unknown: String,
    /// The rate divided by that of the most favoured group, or of the reference group.
    pub impact: String,
    /// How many more positive trials would make that four fifths.
    pub shortfall: String,
    /// The fraction of positive trials, or the mean.
    pub share: String,
    /// The estimate, if it is not the share.
    pub estimate: String,
    /// Interval of the rate, if there is one.
    pub interval: String,
    /// The reason if the group is not compared.
    pub remark: String,
}

/// An alarm, formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// When it was raised.
    pub since: String,
    /// Number of trials when it was raised.
    pub trials: String,
    /// When it was cleared; empty if it is active.
    pub until: String,
    /// What it said: groups, counts, evidence.
    pub message: String,
}

/// Maximum number of alarms in a table that is expanded from the beginning.
const ALARMS: usize = 12;

impl Page {
    /// The page.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n<a class=\"skip\" href=\"#verdict\">To the verdict</a>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p>{}</p>\n</header>\n",
            escaped(&self.subtitle)
        );
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "<section id=\"verdict\" class=\"verdict {}\">\n<h2>Verdict: {}</h2>",
            self.state.class(),
            self.state.name()
        );
        let paragraph = |class: &str, sentence: &str| match sentence {
            "" => String::new(),
            _ => format!("<p class=\"{class}\">{}</p>\n", sentence_of(sentence)),
        };
        text += &paragraph("question", &self.question);
        self.verdict.iter().for_each(|sentence| text += &paragraph("sentence", sentence));
        text += &paragraph("certainty", &self.certainty);
        text += "</section>\n";
        if self.sections.len() > 1 {
            text += "<nav aria-label=\"Metrics\">\n<ul>\n";
            for (number, section) in self.sections.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "<li><a href=\"#s{number}\">{}</a> <span class=\"badge {}\">{}</span></li>",
                    escaped(&section.title),
                    section.state.class(),
                    section.state.name()
                );
            }
            text += "</ul>\n</nav>\n";
        }
        for (number, section) in self.sections.iter().enumerate() {
            section.write(&mut text, number);
        }
        if self.left_out > 0 {
            let _ =
                writeln!(text, "<p>{} more strata are not shown; none of them is worse.</p>", self.left_out);
        }
        text += "<section id=\"data\">\n<h2>Data</h2>\n<dl>\n";
        for (name, value) in &self.quality {
            let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escaped(name), escaped(value));
        }
        let _ = writeln!(text, "</dl>\n<p>{}</p>\n</section>", sentence_of(&self.trial));
        let _ = writeln!(
            text,
            "<section id=\"how\">\n<h2>How it was found</h2>\n<p>To do it again:</p>\n<pre tabindex=\"0\">{}</pre>",
            text_of(&self.again)
        );
        for (name, content) in &self.texts {
            let _ = writeln!(
                text,
                "<details>\n<summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>",
                escaped(name),
                text_of(content)
            );
        }
        text += "</section>\n";
        let _ = writeln!(
            text,
            "</main>\n<footer>\n<p>{}</p>\n</footer>\n</body>\n</html>",
            escaped(&self.made_by)
        );
        text
    }
}

impl Section {
    fn write(&self, text: &mut String, number: usize) {
        let _ = writeln!(
            text,
            "<section id=\"s{number}\" class=\"metric\">\n<h2>{} <span class=\"badge {}\">{}</span></h2>\n<p class=\"question\">{}</p>\n<p>{}</p>",
            escaped(&self.title),
            self.state.class(),
            self.state.name(),
            sentence_of(&self.question),
            sentence_of(&self.verdict)
        );
        if let Some(figure) = &self.figure {
            let svg = figure.svg_named(&format!("frame{number}"));
            let _ = writeln!(
                text,
                "<figure>\n<div class=\"drawing\" tabindex=\"0\">{svg}</div>\n<figcaption>{}</figcaption>\n</figure>",
                escaped(&figure.description)
            );
        }
        self.write_groups(text);
        if !self.alarms.is_empty() {
            text.push_str("<h3>Alarms</h3>\n");
            let is_long = self.alarms.len() > ALARMS;
            if is_long {
                let _ = writeln!(text, "<details>\n<summary>{} rows</summary>", self.alarms.len());
            }
            table(
                text,
                &["raised", "after", "cleared", "what it said"],
                self.alarms.iter().map(|alarm| {
                    let until = if alarm.until.is_empty() { "active" } else { alarm.until.as_str() };
                    vec![alarm.since.as_str(), alarm.trials.as_str(), until, alarm.message.as_str()]
                }),
            );
            text.push_str(if is_long { "</details>\n" } else { "" });
        }
        text.push_str("<details>\n<summary>How it is judged: parameters, and what they mean</summary>\n");
        let _ = writeln!(text, "<p>{}</p>", sentence_of(&self.judged));
        let rows = self.parameters.iter().map(|row| row.iter().map(String::as_str).collect());
        table(text, &["parameter", "value", "meaning"], rows);
        text.push_str("</details>\n</section>\n");
    }

    fn write_groups(&self, text: &mut String) {
        type Cell = fn(&Group) -> &str;
        let columns: [(&str, Cell); 11] = [
            ("group", |group| &group.name),
            ("rate", |group| &group.share),
            ("estimate", |group| &group.estimate),
            ("lies between", |group| &group.interval),
            (&self.counted, |group| &group.positives),
            ("trials", |group| &group.trials),
            ("pending", |group| &group.pending),
            ("unknown", |group| &group.unknown),
            ("impact ratio", |group| &group.impact),
            ("short of 4/5", |group| &group.shortfall),
            ("", |group| &group.remark),
        ];
        // Columns without any content are omitted.
        let columns: Vec<(&str, Cell)> = columns
            .into_iter()
            .filter(|(_, cell)| self.groups.iter().any(|group| !cell(group).is_empty()))
            .collect();
        let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
        let rows = self.groups.iter().map(|group| columns.iter().map(|(_, cell)| cell(group)).collect());
        table(text, &heads, rows);
    }
}

fn table<'a>(text: &mut String, heads: &[&str], rows: impl Iterator<Item = Vec<&'a str>>) {
    text.push_str("<div class=\"table\" tabindex=\"0\">\n<table>\n<thead><tr>");
    for head in heads {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escaped(head));
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        text.push_str("<tr>");
        for (number, cell) in row.iter().enumerate() {
            match number {
                0 => {
                    let _ = write!(text, "<th scope=\"row\">{}</th>", escaped(cell));
                }
                _ => {
                    let _ = write!(text, "<td>{}</td>", escaped(cell));
                }
            }
        }
        text.push_str("</tr>\n");
    }
    text.push_str("</tbody>\n</table>\n</div>\n");
}

/// Formats a sentence; text between backticks is code.
fn sentence_of(text: &str) -> String {
    let parts: Vec<String> = text.split('`').map(escaped).collect();
    if parts.len().is_multiple_of(2) {
        return parts.join("`");
    }
    let is_code = |place: usize| place % 2 == 1;
    let parts = parts.iter().enumerate();
    parts
        .map(|(place, part)| if is_code(place) { format!("<code>{part}</code>") } else { part.clone() })
        .collect()
}

/// A text of several lines.
fn text_of(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

/// Content security policy: whatever the data contains, the page runs nothing and fetches nothing.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Behind, Series};

    fn section(title: &str) -> Section {
        let figure = LinePlot {
            title: title.to_owned(),
            description: "rates".to_owned(),
            x: Axis::new("time"),
            y: Axis::new("rate"),
            series: vec![Series::new("F", vec![(0.0, 0.5), (1.0, 0.2)])],
            limits: Vec::new(),
            behind: Behind {
                stretches: vec![(0.5, 1.0)],
                stretch_name: "alarm".to_owned(),
                ..Behind::default()
            },
        };
        Section {
            title: title.to_owned(),
            question: "Of the applicants: how many were accepted?".to_owned(),
            state: State::Unfair,
            verdict: "F <script>alert(1)</script> differs".to_owned(),
            judged: String::new(),
            counted: "positive".to_owned(),
            figure: Some(figure),
            groups: vec![Group { name: "F & \"co\"".to_owned(), trials: "7".to_owned(), ..Group::default() }],
            parameters: vec![["tolerance".to_owned(), "0.1".to_owned(), "ε".to_owned()]],
            alarms: Vec::new(),
        }
    }

    /// Data is escaped everywhere; elements are closed; ids are unique.
    #[test]
    fn a_page_is_well_formed_and_safe() {
        let page = Page {
            title: "a < b".to_owned(),
            sections: vec![section("one"), section("two")],
            texts: vec![("file".to_owned(), "x = \"<b>\"\ny".to_owned())],
            ..Page::default()
        };
        let html = page.html();
        assert!(!html.contains("<script") && !html.contains("<b>"), "{html}");
        for name in ["section", "table", "details", "figure", "svg", "main", "div", "ul", "tr"] {
            let opened =
                html.matches(&format!("<{name}>")).count() + html.matches(&format!("<{name} ")).count();
            assert_eq!(opened, html.matches(&format!("</{name}>")).count(), "{name}");
        }
        let ids: Vec<&str> = html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let mut once = ids.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), ids.len(), "{ids:?}");
        assert!(html.contains("url(#frame1)") && !html.contains("url(#frame)"));
        // There are no external resources.
        assert!(
            !html.contains("http://")
                || html.matches("http://").count() == html.matches("http://www.w3.org/2000/svg").count()
        );
        assert!(!html.contains("https://"));
        // A column without any content is omitted.
        assert!(!html.contains(">pending<"));
    }
}
