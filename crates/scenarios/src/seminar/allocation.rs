//! Allocation of places: four algorithms.

use std::cmp::Reverse;
use std::str::FromStr;

use fairstream_core::nearest;

use crate::random::Random;

/// An allocation algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// In order of application, at once, as long as there are places.
    FirstComeFirstServed,
    /// By lot, at the end of the term.
    Randomize,
    /// By qualification, at the end of the term; ties go to the earlier application.
    Qualification,
    /// At the end of the term, each place to the group whose acceptance rate in this seminar, over all terms, is
    /// furthest behind; within a group, in order of application. The rates become equal in the long run.
    EqualGender,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::FirstComeFirstServed,
        Algorithm::Randomize,
        Algorithm::Qualification,
        Algorithm::EqualGender,
    ];

    /// Name of the algorithm in options.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::FirstComeFirstServed => "first-come-first-served",
            Algorithm::Randomize => "randomize",
            Algorithm::Qualification => "qualification",
            Algorithm::EqualGender => "equal-gender",
        }
    }
}

impl FromStr for Algorithm {
    type Err = String;

    fn from_str(text: &str) -> Result<Algorithm, String> {
        let names = || Algorithm::ALL.into_iter().map(Algorithm::name);
        let known = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text);
        known.ok_or_else(|| match nearest(text, names()) {
            Some(near) => format!("there is no such algorithm; did you mean `{near}`?"),
            None => {
                format!("there is no such algorithm; there are {}", names().collect::<Vec<_>>().join(", "))
            }
        })
    }
}

/// An applicant for a place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) id: u64,
    pub(super) group: usize,
    pub(super) qualification: i64,
    pub(super) seminar: u32,
}

/// Places and applications of all seminars.
pub(super) struct Allocation {
    algorithm: Algorithm,
    places: usize,
    seminars: Vec<Waiting>,
}

/// State of a seminar.
#[derive(Clone, Default)]
struct Waiting {
    /// Applicants of this term, in order of application.
    applicants: Vec<Candidate>,
    /// Number of places taken in this term.
    taken: usize,
    /// Counts of each group, over all terms.
    group_counts: Vec<GroupCount>,
}

#[derive(Clone, Copy, Default)]
struct GroupCount {
    applied: u64,
    accepted: u64,
}

impl Allocation {
    pub(super) fn new(algorithm: Algorithm, seminars: u32, places: u32, groups: usize) -> Allocation {
        let seminar = Waiting { group_counts: vec![GroupCount::default(); groups], ..Waiting::default() };
        Allocation { algorithm, places: places as usize, seminars: vec![seminar; seminars as usize] }
    }

    /// Frees all places.
    pub(super) fn begin_term(&mut self) {
        for seminar in &mut self.seminars {
            seminar.taken = 0;
        }
    }

    /// Takes an application. Returns whether it is accepted at once.
    pub(super) fn apply(&mut self, applicant: Candidate) -> bool {
        let seminar = &mut self.seminars[applicant.seminar as usize];
        if self.algorithm == Algorithm::FirstComeFirstServed {
            let free = seminar.taken < self.places;
            seminar.taken += usize::from(free);
            return free;
        }
        seminar.group_counts[applicant.group].applied += 1;
        seminar.applicants.push(applicant);
        false
    }

    /// Assigns the free places, in this order.
    pub(super) fn end_term(&mut self, random: &mut Random) -> Vec<Candidate> {
        let mut accepted = Vec::new();
        for seminar in &mut self.seminars {
            let mut applicants = std::mem::take(&mut seminar.applicants);
            let places = self.places.min(applicants.len());
            match self.algorithm {
                Algorithm::FirstComeFirstServed => {}
                Algorithm::Randomize => {
                    for place in 0..places {
                        let drawn = place + random.below((applicants.len() - place) as u64) as usize;
                        applicants.swap(place, drawn);
                    }
                }
                Algorithm::Qualification => {
                    applicants.sort_by_key(|applicant| Reverse(applicant.qualification));
                }
                Algorithm::EqualGender => seminar.balance(&mut applicants, places),
            }
            applicants.truncate(places);
            accepted.append(&mut applicants);
        }
        accepted
    }
}

impl Waiting {
    /// Moves the applicants who get the places to the front.
    fn balance(&mut self, applicants: &mut Vec<Candidate>, places: usize) {
        let mut queues = vec![Vec::new(); self.group_counts.len()];
        // The earliest application is taken first, from the end.
        for applicant in applicants.drain(..).rev() {
            queues[applicant.group].push(applicant);
        }
        for _ in 0..places {
            let waiting = (0..queues.len()).filter(|group| !queues[*group].is_empty());
            let Some(group) = waiting.reduce(|one, other| self.further_behind(one, other)) else { break };
            self.group_counts[group].accepted += 1;
            applicants.extend(queues[group].pop());
        }
    }

    /// The group of two that has the lower rate, with half a place in advance: Webster's method of apportionment,
    /// which favours neither small nor large groups.
    fn further_behind(&self, one: usize, other: usize) -> usize {
        let weight = |group: usize, against: usize| {
            u128::from(2 * self.group_counts[group].accepted + 1)
                * u128::from(self.group_counts[against].applied)
        };
        if weight(other, one) < weight(one, other) { other } else { one }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ids of the applicants who get one of three places; applicants are group and qualification, in order of
    /// application.
    fn accepted(algorithm: Algorithm, people: &[(usize, i64)]) -> Vec<u64> {
        let mut allocation = Allocation::new(algorithm, 1, 3, 2);
        allocation.begin_term();
        let mut accepted = Vec::new();
        for (id, (group, qualification)) in (1..).zip(people) {
            let applicant = Candidate { id, group: *group, qualification: *qualification, seminar: 0 };
            accepted.extend(allocation.apply(applicant).then_some(id));
        }
        accepted.extend(allocation.end_term(&mut Random::new(1)).iter().map(|applicant| applicant.id));
        accepted
    }

    #[test]
    fn each_algorithm_looks_at_what_it_is_named_after() {
        let people = [(0, 50), (0, 70), (0, 60), (0, 90), (1, 70), (1, 20)];
        assert_eq!(accepted(Algorithm::FirstComeFirstServed, &people), [1, 2, 3]);
        assert_eq!(accepted(Algorithm::Qualification, &people), [4, 2, 5]);
        // Two of four and one of two.
        assert_eq!(accepted(Algorithm::EqualGender, &people), [1, 5, 2]);
        let mut drawn = accepted(Algorithm::Randomize, &people);
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn.len(), 3);
        for algorithm in Algorithm::ALL {
            let mut all = accepted(algorithm, &people[3..5]);
            all.sort_unstable();
            assert_eq!(all, [1, 2], "{algorithm:?}: there are enough places");
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
    }

    #[test]
    fn students_behind_last_term_come_first_this_term() {
        let mut allocation = Allocation::new(Algorithm::EqualGender, 1, 1, 2);
        let mut order = Vec::new();
        for _ in 0..6 {
            allocation.begin_term();
            for group in [0, 0, 1] {
                allocation.apply(Candidate { id: group as u64, group, qualification: 0, seminar: 0 });
            }
            order.extend(allocation.end_term(&mut Random::new(1)).iter().map(|applicant| applicant.group));
        }
        assert_eq!(order, [0, 1, 0, 0, 1, 0]);
    }
}
