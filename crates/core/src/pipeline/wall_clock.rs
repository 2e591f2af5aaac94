//! Time that passes by itself: the clock of the machine, for deadlines that no event brings about, and for inputs that are
//! silent.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, never, tick};

use crate::Time;

/// A clock, and a signal from time to time to look at it.
pub trait WallClock: Send + Sync {
    /// The time of day.
    fn now(&self) -> Time;

    /// Time since some moment, which never goes back.
    fn elapsed(&self) -> Duration;

    /// A channel that gets a message when the clock should be looked at.
    fn ticks(&self) -> Receiver<Instant>;
}

/// The clock of the machine, to be looked at ten times a second.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock(Instant::now())
    }
}

impl WallClock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    fn ticks(&self) -> Receiver<Instant> {
        tick(Duration::from_millis(100))
    }
}

/// What lets time pass between two events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// Events alone.
    Events,
    /// The clock of the machine, minus the allowed lateness.
    Wall,
    /// The clock of the machine, minus the allowed lateness, while every input that is not a file is up to date: the time
    /// of its newest event was within that lateness when the event came. Otherwise events alone, so that events of the past
    /// may come from a pipe.
    #[default]
    Auto,
}

impl std::str::FromStr for ClockMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<ClockMode, &'static str> {
        match text {
            "events" => Ok(ClockMode::Events),
            "wall" => Ok(ClockMode::Wall),
            "auto" => Ok(ClockMode::Auto),
            _ => Err("there are `auto`, `wall` and `events`"),
        }
    }
}

/// How time passes between events, and for how long a silent input is waited for.
#[derive(Clone)]
pub struct TimeOptions {
    /// What lets time pass between two events.
    pub mode: ClockMode,
    /// How late an event may be where the clock of the machine decides.
    pub lateness: Duration,
    /// For how long the merge waits for a live source that is silent.
    pub idle: Duration,
    /// The clock of the machine.
    pub clock: Arc<dyn WallClock>,
}

impl Default for TimeOptions {
    fn default() -> TimeOptions {
        TimeOptions {
            mode: ClockMode::default(),
            lateness: Duration::from_secs(60),
            idle: Duration::from_secs(30),
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl fmt::Debug for TimeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimeOptions")
            .field("mode", &self.mode)
            .field("lateness", &self.lateness)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

impl TimeOptions {
    /// The ticks of the clock, if anything depends on them.
    pub(super) fn ticks(&self, is_needed: bool) -> Receiver<Instant> {
        if is_needed { self.clock.ticks() } else { never() }
    }
}
