//! How rates moved, for figures of a run of any length: little memory, and no extreme is lost.

use std::collections::BTreeMap;

use fairstream_core::Time;

use crate::judge::Finding;

/// The course of every rate in every stratum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    courses: BTreeMap<(usize, usize, String), Course>,
}

/// How one rate moved in one stratum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// For each group, as a JSON array of its values, the estimate.
    pub groups: BTreeMap<String, Curve>,
    /// The highest estimate among the groups that are compared.
    pub highest: Curve,
    /// The gap, ratio or highest rate.
    pub gap: Curve,
    /// Alarms: when raised, after how many trials, and when cleared.
    pub alarms: Vec<AlarmSpan>,
}

/// An alarm from its beginning to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlarmSpan {
    /// When it was raised.
    pub since: Time,
    /// How many trials counted by then, of all groups.
    pub trials: u64,
    /// When it was cleared, if it was.
    pub until: Option<Time>,
}

/// Values over time. Of a run of stretches the first, the least, the greatest and the last value are kept; when there
/// are too many stretches, two become one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Curve {
    stretches: Vec<Stretch>,
    /// How many values a stretch takes in.
    width: u64,
    /// How many the last one has.
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

/// More than a figure has room for.
const STRETCHES: usize = 1024;

impl Curve {
    /// Takes in the value from a time on.
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

    /// What is left of the values, in order of time.
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

    /// The value at present.
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

impl History {
    /// How a rate of a rule moved in a stratum.
    pub fn course(&self, rule: usize, rate: usize, stratum: &str) -> Option<&Course> {
        self.courses.get(&(rule, rate, stratum.to_owned()))
    }

    pub(crate) fn note<'a>(
        &mut self,
        (rule, rate, stratum): (usize, usize, &str),
        time: Time,
        finding: &Finding<'_>,
        estimates: impl Iterator<Item = (&'a str, Option<f64>)>,
    ) {
        let key = (rule, rate, stratum.to_owned());
        let course = self.courses.entry(key).or_default();
        for (group, estimate) in estimates {
            let Some(estimate) = estimate else { continue };
            match course.groups.get_mut(group) {
                Some(curve) if curve.latest() == Some(estimate) => {}
                Some(curve) => curve.push(time, estimate),
                None => course.groups.entry(group.to_owned()).or_default().push(time, estimate),
            }
        }
        if let Some((_, _, highest)) = finding.highest {
            course.highest.push(time, highest);
            course.gap.push(time, finding.gap);
        }
    }

    /// An alarm was raised, after so many trials, or cleared.
    pub(crate) fn turn(
        &mut self,
        (rule, rate, stratum): (usize, usize, &str),
        time: Time,
        raised: bool,
        trials: u64,
    ) {
        let course = self.courses.entry((rule, rate, stratum.to_owned())).or_default();
        if raised {
            course.alarms.push(AlarmSpan { since: time, trials, until: None });
        } else if let Some(alarm) = course.alarms.last_mut() {
            alarm.until = Some(time);
        }
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
}
