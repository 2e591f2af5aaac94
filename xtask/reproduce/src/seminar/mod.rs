//! Seminar places: which κ and ε distinguish algorithms that keep the rates of groups equal from those that do
//! not. Demographic parity of all applicants, as in the paper, with three priors; and conditional statistical parity
//! within a seminar, which the paper has no figure of.

mod sweeps;

use fairstream_scenarios::Seminar;

use self::sweeps::{Counted, HIGH, LOW, OF_EQUAL_GENDER, Study};
use crate::Extent;
use crate::page::{Finding, Outcome, grouped, table};
use crate::subject::Subject;

/// What the groups are compared within, and what estimates shrink towards. Everything here was settled before its
/// numbers were known, and a variant that happens to be closer to the paper must not replace it.
struct Variant {
    /// In words, for tables.
    name: &'static str,
    /// Files of figures begin with this.
    prefix: &'static str,
    is_conditional: bool,
    /// The prior as TOML; without one, the file has none, and it is the rate of all applicants.
    prior: Option<&'static str>,
}

/// γ = places / applicants, where all 50 places are filled: what share of those who have applied by now can get one.
/// It is 1 as long as there are no more applicants than places, and 0.5 at the end, with all 100.
const PLACES_PER_APPLICANT: &str = "'if n_trials.aggregate(over_instances: all, using: sum) > 50 \
     then 50.0 / cast<UInt64, Float64>(if n_trials.aggregate(over_instances: all, using: sum) > 50 \
     then n_trials.aggregate(over_instances: all, using: sum) else 50) else 1.0'";

const VARIANTS: [Variant; 4] = [
    Variant { name: "γ = 0.5", prefix: "seminar", is_conditional: false, prior: Some("0.5") },
    Variant {
        name: "γ = places / applicants",
        prefix: "seminar-dynamic",
        is_conditional: false,
        prior: Some(PLACES_PER_APPLICANT),
    },
    Variant {
        name: "γ = rate of all applicants",
        prefix: "seminar-pooled",
        is_conditional: false,
        prior: None,
    },
    Variant {
        name: "within a seminar, γ = 0.5",
        prefix: "seminar-conditional",
        is_conditional: true,
        prior: Some("0.5"),
    },
];
/// Those whose numbers stand beside the paper's: demographic parity with a fixed and with a dynamic prior.
const OF_THE_PAPER: usize = 2;

/// Splits of the same 50 places into seminars, in addition to the default of 5 × 10.
const SPLITS: [(u32, u32); 4] = [(1, 50), (2, 25), (5, 10), (10, 5)];

impl Variant {
    fn subject(&self) -> anyhow::Result<Subject> {
        let prior = self.prior.map(|prior| format!("prior      = {prior}\n")).unwrap_or_default();
        let mut changes = vec![("prior      = 0.5    # γ\n", prior.as_str())];
        if !self.is_conditional {
            changes.push(("\"conditional-statistical-parity\"", "\"demographic-parity\""));
            changes.push(("strata     = \"seminar\"\n", ""));
        }
        Subject::of("seminar.toml", &changes)
    }

    fn metric(&self) -> &'static str {
        if self.is_conditional { "Conditional statistical parity" } else { "Demographic parity" }
    }
}

pub(crate) fn run(extent: Extent) -> anyhow::Result<Outcome> {
    let seeds = extent.seminar_seeds;
    let base = Seminar::default();
    let mut counted: Vec<Counted> = Vec::new();
    let mut figures = Vec::new();
    for variant in &VARIANTS {
        let study = Study { subject: variant.subject()?, grid: Study::grid()?, seeds };
        let found = study.run(&base)?;
        let of = format!("{}, {}", variant.metric(), variant.name);
        let mark = if variant.is_conditional { "" } else { " (paper: 1,031)" };
        figures.extend(found.maps(&of, variant.prefix, mark)?);
        figures.push(found.contrast_map(&of, variant.prefix));
        counted.push(found);
    }
    let mut findings = Vec::new();
    for (variant, found) in VARIANTS.iter().zip(&counted).take(OF_THE_PAPER) {
        let of = |what: &str| format!("{what}, {}", variant.name);
        findings.extend([
            Finding::new(of("EqualGender, κ = 54, ε = 0.085: triggers"), "1,031", found.against_paper()?),
            Finding::new(
                of("Randomize against EqualGender, κ = 80, ε = 0.1"),
                "187 ×",
                found.contrast(HIGH)?,
            ),
            Finding::new(
                of("Randomize against EqualGender, κ = 30, ε = 0.1"),
                "about 6 ×",
                found.contrast(LOW)?,
            ),
        ]);
    }
    let (demographic, conditional) = counted.split_at(VARIANTS.len() - 1);
    let mut details = String::from("Triggers of all four algorithms, demographic parity:\n");
    for (variant, found) in VARIANTS.iter().zip(demographic) {
        details += &format!("\n{}\n\n{}", variant.name, algorithms(found)?);
    }
    details += &format!(
        "\nA person who has applied and still waits counts as not accepted. Therefore groups can differ before any place \
         is assigned, the same under every algorithm that waits for the end of the term. Such triggers count on both \
         sides of a contrast, and bring it closer to 1. Of EqualGender, with all triggers beside them:\n\n{}\nThe \
         paper's generator is not public: the numbers of seminars and places, the sizes of groups, and the times of \
         applications and decisions are our choice, and change the counts. To measure the effect, four splits of the same \
         50 places are shown. A split that is closer to the paper than another need not be the one that the paper \
         used:\n\n{}\nConditional statistical parity within a seminar, with γ = 0.5 (`specs/seminar.toml`), which the paper \
         has no figure of; a trigger is an event at which the gap of one seminar is above ε:\n\n{}",
        waiting(&counted)?,
        splits(seeds)?,
        conditional.first().map(algorithms).transpose()?.unwrap_or_default(),
    );
    Ok(Outcome {
        setting: format!(
            "{} scenarios of 100 applicants each, with places assigned by each of four algorithms: 5 seminars with 10 places \
             each, men and women with the same distribution. Demographic parity of all applicants, for κ from 10 to 100 and \
             ε from 0.05 to 0.2; a trigger is an event at which the gap is above ε. The prior is 0.5, or places / applicants: \
             50 for as many as have applied by now, at most 1; or, not beside the paper's numbers, the rate of all applicants, \
             which a fairness file has by default.",
            grouped(seeds)
        ),
        findings,
        details,
        figures,
        ..Outcome::default()
    })
}

/// The triggers of every algorithm, and the contrasts.
fn algorithms(found: &Counted) -> anyhow::Result<String> {
    let points = [LOW, OF_EQUAL_GENDER, HIGH];
    let mut rows = found.rows(&points)?;
    let mut contrasts = vec!["Randomize against EqualGender".to_owned()];
    for point in points {
        contrasts.push(found.contrast(point)?);
    }
    rows.push(contrasts);
    Ok(table(&["algorithm", "κ = 30, ε = 0.1", "κ = 54, ε = 0.085", "κ = 80, ε = 0.1"], rows))
}

/// The triggers of EqualGender that come before any place is assigned.
fn waiting(counted: &[Counted]) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (variant, found) in VARIANTS.iter().zip(counted) {
        let mut row = vec![format!("{}, {}", variant.metric(), variant.name)];
        for point in [LOW, OF_EQUAL_GENDER, HIGH] {
            let (before, all) = (found.before_places(point)?, found.equal_gender(point)?);
            row.push(format!("{} of {}", grouped(before), grouped(all)));
        }
        rows.push(row);
    }
    Ok(table(&["before any place", "κ = 30, ε = 0.1", "κ = 54, ε = 0.085", "κ = 80, ε = 0.1"], rows))
}

/// What the paper has numbers of, for other splits of the places.
fn splits(seeds: u64) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for variant in &VARIANTS {
        let study = Study { subject: variant.subject()?, grid: Study::points()?, seeds };
        for (seminars, places) in SPLITS {
            let found = study.run(&Seminar { seminars, places, ..Seminar::default() })?;
            rows.push(vec![
                format!("{seminars} × {places}"),
                format!("{}, {}", variant.metric(), variant.name),
                found.against_paper()?,
                found.contrast(HIGH)?,
                found.contrast(LOW)?,
            ]);
        }
    }
    let head = [
        "seminars × places",
        "metric",
        "EqualGender at κ = 54, ε = 0.085",
        "contrast at κ = 80, ε = 0.1",
        "contrast at κ = 30, ε = 0.1",
    ];
    Ok(table(&head, rows))
}
