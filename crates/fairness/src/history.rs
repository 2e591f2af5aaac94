//! Rates over time, downsampled to bounded memory for runs of any length. Downsampling keeps every extreme.

use std::collections::{BTreeMap, HashMap};

use fairstream_core::{
    StateCell, StateCellType, StateError, StateReader, StateTableWriter, StateWriter, TableColumns, Time,
    read_table,
};

use crate::AlarmBasis;
use crate::judge::Gap;

/// The history of every rate in every stratum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// History of each rate, by rule and rate, and then by stratum.
    rates: BTreeMap<(usize, usize), BTreeMap<String, RateHistory>>,
}

/// The history of one rate in one stratum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RateHistory {
    /// Estimate of each group, by a JSON array of its values.
    pub groups: HashMap<String, Curve>,
    /// The highest estimate among the groups that are compared.
    pub highest: Curve,
    /// The gap, ratio or highest rate.
    pub gap: Curve,
    /// Alarms in order of time. If there are too many, those with the shortest pauses between them are merged.
    pub alarms: Vec<AlarmSpan>,
}

/// An alarm from raise to clear, or several merged ones.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmSpan {
    /// Number of alarms in this span.
    pub count: u64,
    /// When the first of them was raised.
    pub since: Time,
    /// Number of trials counted by then, over all groups; those in the window, if there is one.
    pub trials: u64,
    /// When the last of them was cleared; `None` if it is active.
    pub until: Option<Time>,
    /// What the first of them rests on: its message, groups, counts and evidence.
    pub basis: AlarmBasis,
}

/// A downsampled time series. It is divided into stretches, each of which keeps its first, least, greatest and last
/// value. When there are too many stretches, neighbours are merged in pairs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    stretches: Vec<Stretch>,
    /// Number of values in a full stretch.
    width: u64,
    /// Number of values in the last stretch.
    filled: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Stretch {
    first: Point,
    least: Point,
    most: Point,
    last: Point,
}

type Point = (Time, f64);

/// Maximum number of stretches: more than a figure has pixels for.
const STRETCHES: usize = 1024;
const ALARMS: usize = 512;

impl Curve {
    /// Appends the value that holds from a time on.
    pub fn push(&mut self, time: Time, value: f64) {
        let point = (time, value);
        match self.stretches.last_mut() {
            Some(stretch) if self.filled < self.width => {
                stretch.join(Stretch::of(point));
                self.filled += 1;
            }
            _ => {
                if self.stretches.len() == STRETCHES {
                    self.halve();
                }
                self.stretches.push(Stretch::of(point));
                (self.width, self.filled) = (self.width.max(1), 1);
            }
        }
    }

    fn halve(&mut self) {
        let pairs = self.stretches.chunks(2).map(|pair| {
            let mut stretch = pair[0];
            pair[1..].iter().for_each(|later| stretch.join(*later));
            stretch
        });
        self.stretches = pairs.collect();
        self.width *= 2;
    }

    /// The values that are kept, in order of time.
    pub fn points(&self) -> Vec<(Time, f64)> {
        let mut points = Vec::new();
        for Stretch { first, least, most, last } in &self.stretches {
            let (early, late) = if least.0 <= most.0 { (least, most) } else { (most, least) };
            for point in [first, early, late, last] {
                if points.last() != Some(point) {
                    points.push(*point);
                }
            }
        }
        points
    }

    /// The first value.
    pub fn first(&self) -> Option<(Time, f64)> {
        self.stretches.first().map(|stretch| stretch.first)
    }

    /// The latest value.
    pub fn latest(&self) -> Option<f64> {
        self.stretches.last().map(|stretch| stretch.last.1)
    }
}

impl Stretch {
    fn of(point: Point) -> Stretch {
        Stretch { first: point, least: point, most: point, last: point }
    }

    fn join(&mut self, later: Stretch) {
        if later.least.1 < self.least.1 {
            self.least = later.least;
        }
        if later.most.1 > self.most.1 {
            self.most = later.most;
        }
        self.last = later.last;
    }
}

impl RateHistory {
    /// Halves the number of spans by merging across the shortest pauses.
    fn thin_out(&mut self) {
        let pause = |earlier: &AlarmSpan, later: &AlarmSpan| {
            earlier.until.map_or(0, |until| later.since.0.saturating_sub(until.0))
        };
        let mut pauses: Vec<(i64, usize)> = self
            .alarms
            .windows(2)
            .enumerate()
            .map(|(at, pair)| (pause(&pair[0], &pair[1]), at + 1))
            .collect();
        pauses.sort_unstable();
        pauses.truncate(self.alarms.len() / 2);
        let mut joined: Vec<usize> = pauses.into_iter().map(|(_, later)| later).collect();
        joined.sort_unstable();
        let mut thinned: Vec<AlarmSpan> = Vec::new();
        for (at, alarm) in self.alarms.drain(..).enumerate() {
            match thinned.last_mut() {
                Some(last) if joined.binary_search(&at).is_ok() => {
                    last.count += alarm.count;
                    last.until = alarm.until;
                }
                _ => thinned.push(alarm),
            }
        }
        self.alarms = thinned;
    }
}

impl History {
    /// The history of a rate of a rule in a stratum.
    pub fn rate(&self, rule: usize, rate: usize, stratum: &str) -> Option<&RateHistory> {
        self.rates.get(&(rule, rate))?.get(stratum)
    }

    /// All histories, in order of rule, rate and stratum.
    pub fn rates(&self) -> impl Iterator<Item = &RateHistory> {
        self.rates.values().flat_map(BTreeMap::values)
    }

    fn rate_mut(&mut self, (rule, rate, stratum): (usize, usize, &str)) -> &mut RateHistory {
        let strata = self.rates.entry((rule, rate)).or_default();
        strata.entry(stratum.to_owned()).or_default()
    }

    /// Records the gap and the estimates at a check, of the groups whose estimate may have changed. Without any there is nothing
    /// to be recorded.
    pub(crate) fn note<'a>(
        &mut self,
        key: (usize, usize, &str),
        time: Time,
        gap: &Gap<'_>,
        estimates: impl Iterator<Item = (&'a str, Option<f64>)>,
    ) {
        let mut estimates = estimates.filter_map(|(group, estimate)| Some((group, estimate?))).peekable();
        if estimates.peek().is_none() && gap.highest.is_none() {
            return;
        }
        let rate = self.rate_mut(key);
        for (group, estimate) in estimates {
            match rate.groups.get_mut(group) {
                Some(curve) if curve.latest() == Some(estimate) => {}
                Some(curve) => curve.push(time, estimate),
                None => rate.groups.entry(group.to_owned()).or_default().push(time, estimate),
            }
        }
        if let Some((_, _, highest)) = gap.highest {
            rate.highest.push(time, highest);
            rate.gap.push(time, gap.size);
        }
    }

    /// Records that an alarm was raised, after this number of trials.
    pub(crate) fn raise(&mut self, key: (usize, usize, &str), basis: AlarmBasis, trials: u64) {
        let rate = self.rate_mut(key);
        if rate.alarms.len() == ALARMS {
            rate.thin_out();
        }
        rate.alarms.push(AlarmSpan { count: 1, since: basis.since, trials, until: None, basis });
    }

    /// Records that the active alarm was cleared.
    pub(crate) fn clear(&mut self, key: (usize, usize, &str), time: Time) {
        if let Some(alarm) = self.rate_mut(key).alarms.last_mut() {
            alarm.until = Some(time);
        }
    }
}

const POINTS: &str = "judge/history/curves";
const POINT_COLUMNS: TableColumns<'static> = &[
    ("rate", StateCellType::Text),
    ("stratum", StateCellType::Text),
    ("curve", StateCellType::Text),
    ("group", StateCellType::Text),
    ("width", StateCellType::UInt),
    ("filled", StateCellType::UInt),
    ("first_time", StateCellType::Time),
    ("first", StateCellType::Float),
    ("least_time", StateCellType::Time),
    ("least", StateCellType::Float),
    ("most_time", StateCellType::Time),
    ("most", StateCellType::Float),
    ("last_time", StateCellType::Time),
    ("last", StateCellType::Float),
];
const SPANS: &str = "judge/history/alarms";
const SPAN_COLUMNS: TableColumns<'static> = &[
    ("rate", StateCellType::Text),
    ("stratum", StateCellType::Text),
    ("alarms", StateCellType::UInt),
    ("since", StateCellType::Time),
    ("until", StateCellType::Time),
    ("trials", StateCellType::UInt),
    ("basis", StateCellType::Text),
];

impl History {
    /// Writes everything; `name` gives the name of a rate's alarms.
    pub(crate) fn write<'a>(
        &self,
        to: &mut dyn StateWriter,
        name: impl Fn(usize, usize) -> Option<&'a str>,
    ) -> Result<(), StateError> {
        let (mut points, mut spans) =
            (StateTableWriter::new(POINTS, POINT_COLUMNS), StateTableWriter::new(SPANS, SPAN_COLUMNS));
        for ((rule, rate), strata) in &self.rates {
            let Some(rate) = name(*rule, *rate).map(StateCell::Text) else { continue };
            for (stratum, of) in strata {
                let stratum = StateCell::Text(stratum);
                let mut groups: Vec<(&String, &Curve)> = of.groups.iter().collect();
                groups.sort_by_key(|(group, _)| *group);
                let groups = groups.into_iter().map(|(group, curve)| ("estimate", Some(group), curve));
                for (name, group, curve) in
                    [("highest", None, &of.highest), ("gap", None, &of.gap)].into_iter().chain(groups)
                {
                    let key = [
                        rate,
                        stratum,
                        StateCell::Text(name),
                        group.map_or(StateCell::Absent, |group| StateCell::Text(group)),
                        StateCell::UInt(curve.width),
                        StateCell::UInt(curve.filled),
                    ];
                    for Stretch { first, least, most, last } in &curve.stretches {
                        let ends = [first, least, most, last].into_iter();
                        let ends = ends
                            .flat_map(|(time, value)| [StateCell::Time(time.0), StateCell::Float(*value)]);
                        let row: Vec<StateCell<'_>> = key.into_iter().chain(ends).collect();
                        points.row(&row, to)?;
                    }
                }
                for AlarmSpan { count, since, trials, until, basis } in &of.alarms {
                    let basis =
                        serde_json::to_string(basis).map_err(|error| StateError::Io(error.to_string()))?;
                    let row = [
                        rate,
                        stratum,
                        StateCell::UInt(*count),
                        StateCell::Time(since.0),
                        until.map_or(StateCell::Absent, |until| StateCell::Time(until.0)),
                        StateCell::UInt(*trials),
                        StateCell::Text(&basis),
                    ];
                    spans.row(&row, to)?;
                }
            }
        }
        points.finish(to)?;
        spans.finish(to)
    }

    /// Reads the history of the rates that `rate` knows by the name of their alarms.
    pub(crate) fn read(
        state: &dyn StateReader,
        rate: impl Fn(&str) -> Option<(usize, usize)>,
    ) -> Result<History, StateError> {
        let lacks = |table: &str| StateError::Damaged(format!("a row of `{table}` lacks a value"));
        let mut history = History::default();
        read_table(state, POINTS, POINT_COLUMNS, |cells| {
            let [
                StateCell::Text(name),
                StateCell::Text(stratum),
                StateCell::Text(curve),
                group,
                StateCell::UInt(width),
                StateCell::UInt(filled),
                ends @ ..,
            ] = cells
            else {
                return Err(lacks(POINTS));
            };
            let point = |at: usize| match ends.get(at..at + 2) {
                Some([StateCell::Time(time), StateCell::Float(value)]) => Ok((Time(*time), *value)),
                _ => Err(lacks(POINTS)),
            };
            let stretch = Stretch { first: point(0)?, least: point(2)?, most: point(4)?, last: point(6)? };
            let Some((rule, rate)) = rate(name) else { return Ok(()) };
            let of = history.rate_mut((rule, rate, stratum));
            let curve = match (*curve, group) {
                ("highest", _) => &mut of.highest,
                ("gap", _) => &mut of.gap,
                ("estimate", StateCell::Text(group)) => of.groups.entry((*group).to_owned()).or_default(),
                _ => return Err(lacks(POINTS)),
            };
            if curve.stretches.len() == STRETCHES || *filled > *width || *width > 1 << 48 {
                return Err(StateError::Damaged(format!("`{POINTS}` has a curve that there cannot be")));
            }
            (curve.width, curve.filled) = (*width, *filled);
            curve.stretches.push(stretch);
            Ok(())
        })?;
        read_table(state, SPANS, SPAN_COLUMNS, |cells| {
            let [
                StateCell::Text(name),
                StateCell::Text(stratum),
                StateCell::UInt(count),
                StateCell::Time(since),
                until,
                StateCell::UInt(trials),
                StateCell::Text(basis),
            ] = cells
            else {
                return Err(lacks(SPANS));
            };
            let Some((rule, rate)) = rate(name) else { return Ok(()) };
            let basis = serde_json::from_str(basis);
            let basis = basis.map_err(|error| StateError::Damaged(format!("`{SPANS}`: {error}")))?;
            let until = if let StateCell::Time(until) = until { Some(Time(*until)) } else { None };
            let span = AlarmSpan { count: *count, since: Time(*since), trials: *trials, until, basis };
            let alarms = &mut history.rate_mut((rule, rate, stratum)).alarms;
            if alarms.len() == ALARMS || *count > 1 << 48 {
                return Err(StateError::Damaged(format!("`{SPANS}` has more alarms than are kept")));
            }
            alarms.push(span);
            Ok(())
        })?;
        Ok(history)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many values there are, few points are kept, in order, with the first, the last and every extreme.
    #[test]
    fn extremes_survive() {
        for count in [1_i64, 2, 1024, 1025, 100_000] {
            let mut random = 7_u64;
            let values: Vec<f64> = (0..count)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1_442_695_040_888_963_407);
                    (random >> 40) as f64
                })
                .collect();
            let mut curve = Curve::default();
            values.iter().enumerate().for_each(|(at, value)| curve.push(Time(at as i64), *value));
            let points = curve.points();
            assert!(points.len() <= 4 * STRETCHES, "{count}: {}", points.len());
            assert!(points.is_sorted_by_key(|(time, _)| *time), "{count}");
            // Nothing is invented.
            assert!(points.iter().all(|(time, value)| values[time.0 as usize] == *value), "{count}");
            let has = |value: f64| points.iter().any(|(_, kept)| *kept == value);
            assert!(has(values.iter().copied().fold(f64::INFINITY, f64::min)), "{count}");
            assert!(has(values.iter().copied().fold(f64::NEG_INFINITY, f64::max)), "{count}");
            assert_eq!(points.first().map(|point| point.1), values.first().copied(), "{count}");
            assert_eq!(curve.latest(), values.last().copied(), "{count}");
        }
    }

    fn basis(since: i64, number: u64) -> AlarmBasis {
        AlarmBasis {
            since: Time(since),
            message: format!("alarm {number}"),
            groups: Vec::new(),
            blocks: None,
            gap: 0.2,
            tolerance: 0.1,
            log_e_value: None,
            log_threshold: None,
            log_p_value: None,
            recorded: None,
        }
    }

    /// However many alarms there are, few spans are kept: every alarm is in one, the count is right, and the longest
    /// pauses stay pauses.
    #[test]
    fn alarms_in_short_order_become_one() {
        let mut history = History::default();
        let place = (0, 0, "[]");
        let mut clock = 0;
        let mut all = Vec::new();
        for number in 0..100_000_u64 {
            // A hundred spells of alarms, with long pauses between.
            clock += if number % 1000 == 0 { 1_000_000 } else { 1 + i64::try_from(number % 7).unwrap() };
            history.raise(place, basis(clock, number), number);
            history.clear(place, Time(clock + 2));
            all.push((clock, clock + 2));
            clock += 2;
        }
        let alarms = &history.rate(0, 0, "[]").unwrap().alarms;
        assert!(alarms.len() <= ALARMS, "{}", alarms.len());
        assert_eq!(alarms.iter().map(|alarm| alarm.count).sum::<u64>(), 100_000);
        // Each span has what its first alarm rests on.
        for alarm in alarms {
            assert_eq!(alarm.basis, basis(alarm.since.0, alarm.trials));
        }
        for (since, until) in all {
            let holds =
                |span: &AlarmSpan| span.since.0 <= since && span.until.is_some_and(|end| until <= end.0);
            assert_eq!(alarms.iter().filter(|span| holds(span)).count(), 1);
        }
        assert!(
            alarms.iter().all(|span| span.until.unwrap().0 - span.since.0 < 1_000_000),
            "a long pause is in one"
        );
    }
}
