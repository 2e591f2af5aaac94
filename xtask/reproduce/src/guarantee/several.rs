//! Hypotheses that share one promise: strata, and the two rates of equalized odds.

use fairstream_guarantee::{Contenders, EProcess, Family, FamilyBound};
use fairstream_scenarios::Random;

use super::rules::{LEVEL, guaranteed};
use super::simulate::{Times, all};
use super::systems::{TOLERANCE, outcome};
use crate::page::{grouped, percent, table};

/// Number of strata.
const STRATA: usize = 50;
/// How many of them are unfair.
const UNFAIR: usize = 15;
/// Decisions in each stratum, on average.
const DECISIONS: usize = 600;

/// How strata share the promise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    /// Each has the same share, for good.
    Fixed,
    /// By a family with this bound.
    Family(FamilyBound),
}

impl Sharing {
    const ALL: [Sharing; 3] = [
        Sharing::Fixed,
        Sharing::Family(FamilyBound::FalseAlarms),
        Sharing::Family(FamilyBound::FalseDiscoveries),
    ];

    fn name(self) -> &'static str {
        match self {
            Sharing::Fixed => "fixed shares (Bonferroni)",
            Sharing::Family(FamilyBound::FalseAlarms) => "`false_alarms = 0.05` (Holm)",
            Sharing::Family(FamilyBound::FalseDiscoveries) => "`false_discoveries = 0.05` (e-BH)",
        }
    }
}

/// The strata that have an alarm.
struct Alarms {
    family: Option<Family>,
    contenders: Contenders,
    raised: [bool; STRATA],
}

impl Alarms {
    fn new(sharing: Sharing) -> Alarms {
        let family = match sharing {
            Sharing::Fixed => None,
            Sharing::Family(bound) => Some(Family::new(bound, LEVEL)),
        };
        Alarms { family, contenders: Contenders::default(), raised: [false; STRATA] }
    }

    fn look(&mut self, stratum: usize, log_e_value: f64) {
        let share = 1.0 / STRATA as f64;
        if self.raised[stratum] {
            return;
        }
        match &mut self.family {
            None => self.raised[stratum] = log_e_value > -(LEVEL * share).ln(),
            Some(family) => {
                family.compare(&mut self.contenders, stratum, share, log_e_value);
                for rejected in family.reject(&mut self.contenders) {
                    self.raised[rejected] = true;
                }
            }
        }
    }

    /// How many of the first `unfair` strata have an alarm, and how many of the others.
    fn count(&self, unfair: usize) -> (u64, u64) {
        let count = |strata: &[bool]| strata.iter().filter(|is_raised| **is_raised).count() as u64;
        let (unfair, fair) = self.raised.split_at(unfair);
        (count(unfair), count(fair))
    }
}

/// Strata of which the first `unfair` have rates of 0.5 and 0.2, and all others are at the edge. For each way of sharing, how
/// many alarms are right, and how many are wrong.
fn strata(seed: u64, unfair: usize) -> [(u64, u64); Sharing::ALL.len()] {
    let hypothesis = guaranteed(TOLERANCE);
    let mut random = Random::new(seed);
    let mut e_processes = vec![EProcess::default(); STRATA];
    let mut alarms = Sharing::ALL.map(Alarms::new);
    for _ in 0..STRATA * DECISIONS {
        let stratum = ((random.fraction() * STRATA as f64) as usize).min(STRATA - 1);
        let group = usize::from(random.chance(0.5));
        let rate = [0.5, if stratum < unfair { 0.2 } else { 0.4 }][group];
        let e_process = &mut e_processes[stratum];
        e_process.count(&hypothesis, group, outcome(&mut random, rate), 0);
        if e_process.look() {
            alarms.iter_mut().for_each(|alarms| alarms.look(stratum, e_process.log_e_value()));
        }
    }
    alarms.map(|alarms| alarms.count(unfair))
}

/// When equalized odds raise an alarm: true positive rates of 0.7 and 0.6, false positive rates of 0.3 and 0.2, of groups in
/// which an outcome has a probability of 0.2 and 0.6.
fn equalized_odds(seed: u64, decisions: u64) -> u64 {
    let hypothesis = guaranteed(TOLERANCE);
    let mut random = Random::new(seed);
    let mut e_processes = [EProcess::default(), EProcess::default()];
    for number in 0..decisions {
        let group = usize::from(random.chance(0.5));
        let comes = usize::from(random.chance([0.2, 0.6][group]));
        let rate = [[0.3, 0.2], [0.7, 0.6]][comes][group];
        let e_process = &mut e_processes[comes];
        e_process.count(&hypothesis, group, outcome(&mut random, rate), 0);
        if e_process.look() && e_process.log_e_value() > -(LEVEL / 2.0).ln() {
            return number + 1;
        }
    }
    u64::MAX
}

/// The tables, and the worst share of runs with a false alarm.
pub(super) fn several(runs: u64, decisions: u64) -> (String, f64) {
    let mut odds = all(runs, |seed| equalized_odds(seed, decisions));
    odds.sort_unstable();
    let odds = Times(odds);
    let mut rows =
        vec![vec!["equalized odds, base rates of 0.2 and 0.6".to_owned(), "Holm".to_owned(), odds.percent()]];
    let mut worst = odds.share();
    let runs = runs.div_ceil(4);
    let fair = all(runs, |seed| strata(seed, 0));
    for (index, sharing) in Sharing::ALL.into_iter().enumerate() {
        let alarm = |run: &[(u64, u64); 3]| if run[index].1 > 0 { 0 } else { u64::MAX };
        let any = Times(fair.iter().map(alarm).collect());
        worst = worst.max(any.share());
        rows.push(vec![format!("{STRATA} strata at the edge"), sharing.name().to_owned(), any.percent()]);
    }
    let head = ["fair system", "shared by", "runs with any alarm"];
    let mut text = format!(
        "\nHypotheses that share a promise of 5 %, at the edge; {} runs of equalized odds, {} of strata:\n\n{}",
        grouped(4 * runs),
        grouped(runs),
        table(&head, rows)
    );
    let unfair = all(runs, |seed| strata(seed, UNFAIR));
    let rows = Sharing::ALL.into_iter().enumerate().map(|(index, sharing)| {
        let mean = |of: fn((u64, u64)) -> f64| {
            unfair.iter().map(|run| of(run[index])).sum::<f64>() / unfair.len().max(1) as f64
        };
        vec![
            sharing.name().to_owned(),
            format!("{:.1}", mean(|(right, _)| right as f64)),
            percent(mean(|(right, wrong)| wrong as f64 / (right + wrong).max(1) as f64)),
            percent(mean(|(_, wrong)| f64::from(u8::from(wrong > 0)))),
        ]
    });
    let head =
        ["shared by", "unfair strata found", "fraction of alarms that are false", "runs with a false alarm"];
    text += &format!(
        "\n{UNFAIR} of {STRATA} strata are unfair (0.5, 0.2), the others at the edge, after {DECISIONS} decisions in each, {} \
         runs:\n\n{}",
        grouped(runs),
        table(&head, rows)
    );
    (text, worst)
}
