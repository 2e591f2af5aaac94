//! A number for each group, as in `M=0.5,F=0.2`.

use std::fmt;
use std::str::FromStr;

use fairstream_core::{BadOption, nearest};

use crate::random::Random;

/// Groups of people and a number for each, in the order of the option.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(Vec<(String, f64)>);

impl Groups {
    /// Groups by name.
    pub fn new<N: Into<String>>(groups: impl IntoIterator<Item = (N, f64)>) -> Groups {
        Groups(groups.into_iter().map(|(name, number)| (name.into(), number)).collect())
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Their numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = f64> {
        self.0.iter().map(|(_, number)| *number)
    }

    /// The number of a group.
    pub fn of(&self, group: &str) -> Option<f64> {
        self.0.iter().find(|(name, _)| name == group).map(|(_, number)| *number)
    }

    /// Refuses an empty list, a group twice or without a name, and numbers out of range.
    pub(crate) fn check(&self, key: &str, range: std::ops::RangeInclusive<f64>) -> Result<(), BadOption> {
        let bad = |reason| Err(bad(key, self, reason));
        if self.0.is_empty() {
            return bad("name at least one group, as in `M=0.5,F=0.2`".to_owned());
        }
        for (index, (name, number)) in self.0.iter().enumerate() {
            if name.is_empty() {
                return bad("a group has no name".to_owned());
            }
            if self.0[..index].iter().any(|(earlier, _)| earlier == name) {
                return bad(format!("group `{name}` is there twice"));
            }
            if !range.contains(number) {
                return bad(match range.end() {
                    end if end.is_finite() => {
                        format!("{number} for `{name}` is not between {} and {end}", range.start())
                    }
                    _ => format!("{number} for `{name}` is below {}", range.start()),
                });
            }
        }
        Ok(())
    }

    /// The numbers for the groups `of`, with `default` for those that are not named here. Refuses groups that are
    /// not among them.
    pub(crate) fn for_each(&self, key: &str, of: &Groups, default: f64) -> Result<Vec<f64>, BadOption> {
        if let Some(stranger) = self.names().find(|name| of.of(name).is_none()) {
            let names: Vec<String> = of.names().map(|name| format!("`{name}`")).collect();
            let hint = match nearest(stranger, of.names()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", names.join(", ")),
            };
            return Err(bad(key, self, format!("there is no group `{stranger}`; {hint}")));
        }
        Ok(of.names().map(|name| self.of(name).unwrap_or(default)).collect())
    }
}

/// In the notation of the option.
impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, number)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={number}", if index > 0 { "," } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Groups {
    type Err = String;

    fn from_str(text: &str) -> Result<Groups, String> {
        let group = |part: &str| {
            let (name, number) = part
                .rsplit_once('=')
                .ok_or_else(|| format!("`{part}` is not GROUP=NUMBER; write it as in `M=0.5,F=0.2`"))?;
            let parsed: Option<f64> = number.trim().parse().ok();
            let finite = parsed.filter(|number| number.is_finite());
            let number = finite.ok_or_else(|| format!("`{number}` for `{name}` is not a number"))?;
            Ok((name.trim().to_owned(), number))
        };
        if text.is_empty() {
            return Ok(Groups::default());
        }
        text.split(',').map(group).collect::<Result<_, String>>().map(Groups)
    }
}

/// Draws an index with probability proportional to its share.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// Cumulative shares, from 0 to 1.
    ends: Vec<f64>,
}

impl Shares {
    /// `None` if the sum of the shares is 0.
    pub(crate) fn new(shares: &[f64]) -> Option<Shares> {
        let total: f64 = shares.iter().sum();
        let ends = shares.iter().scan(0.0, |sum, share| {
            *sum += share;
            Some(*sum / total)
        });
        (total > 0.0 && total.is_finite()).then(|| Shares { ends: ends.collect() })
    }

    /// The index that is drawn.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        let place = random.fraction();
        // The last end is 1 up to rounding.
        self.ends.iter().position(|end| place < *end).unwrap_or(self.ends.len() - 1)
    }
}

/// An error for an invalid option.
pub(crate) fn bad(key: &str, value: impl ToString, reason: impl Into<String>) -> BadOption {
    BadOption::Value { key: key.to_owned(), value: value.to_string(), reason: reason.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_or_refused_with_a_reason() {
        for (text, expected) in [
            ("M=0.5,F=0.2", "M=0.5,F=0.2"),
            (" M = 1 , F=0", "M=1,F=0"),
            ("a=b=0.5", "a=b=0.5"),
            ("", "name at least one group, as in `M=0.5,F=0.2`"),
            ("M", "`M` is not GROUP=NUMBER; write it as in `M=0.5,F=0.2`"),
            ("M=0.5,", "`` is not GROUP=NUMBER; write it as in `M=0.5,F=0.2`"),
            ("=0.5", "a group has no name"),
            ("M=x", "`x` for `M` is not a number"),
            ("M=NaN", "`NaN` for `M` is not a number"),
            ("M=0.5,M=0.2", "group `M` is there twice"),
            ("M=1.5", "1.5 for `M` is not between 0 and 1"),
        ] {
            let read = text.parse::<Groups>().and_then(|groups| match groups.check("accept", 0.0..=1.0) {
                Ok(()) => Ok(groups.to_string()),
                Err(BadOption::Value { reason, .. }) => Err(reason),
                Err(bad) => Err(bad.to_string()),
            });
            assert_eq!(read.unwrap_or_else(|reason| reason), expected, "{text:?}");
        }
    }

    #[test]
    fn shares_are_drawn_as_often_as_they_say() {
        let shares = Shares::new(&[3.0, 0.0, 1.0]).unwrap();
        let mut random = Random::new(2);
        let mut drawn = [0; 3];
        for _ in 0..40_000 {
            drawn[shares.draw(&mut random)] += 1;
        }
        assert!((29_500..30_500).contains(&drawn[0]) && drawn[1] == 0, "{drawn:?}");
        assert!(Shares::new(&[0.0]).is_none());
    }
}
