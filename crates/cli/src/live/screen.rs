//! The terminal while a live view has it. There is one terminal, so there is one screen: whoever would write to it
//! meanwhile is held back, and written once the screen is left. It is left however the process ends: in good order, by
//! an error, at once, or by a panic.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// Where a text was meant to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Output,
    Error,
}

/// What is held back while the screen is taken; `None` while it is not.
static HELD: Mutex<Option<HeldOutput>> = Mutex::new(None);

#[derive(Debug, Default)]
struct HeldOutput {
    texts: VecDeque<(To, String)>,
    left_out: u64,
}

/// More than anybody reads afterwards.
const TEXTS: usize = 10_000;

pub(super) type Canvas = Terminal<CrosstermBackend<io::Stderr>>;

/// Takes the screen.
pub(super) fn enter() -> io::Result<Canvas> {
    *held() = Some(HeldOutput::default());
    let entered = enable_raw_mode()
        .and_then(|()| execute!(io::stderr(), EnterAlternateScreen))
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
    entered.inspect_err(|_| leave())
}

/// Whether the screen is taken.
pub(super) fn is_taken() -> bool {
    held().is_some()
}

/// Gives the screen back, if it was taken, and writes what was held back.
pub(crate) fn leave() {
    let held = held().take();
    give_back(held);
}

fn give_back(held: Option<HeldOutput>) {
    let Some(HeldOutput { texts, left_out }) = held else { return };
    // If the terminal is gone, there is nothing to put in order.
    let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    if left_out > 0 {
        let _ = writeln!(io::stderr(), "{left_out} earlier lines are left out");
    }
    for (to, text) in texts {
        let _ = match to {
            To::Output => io::stdout().write_all(text.as_bytes()),
            To::Error => io::stderr().write_all(text.as_bytes()),
        };
    }
    let _ = io::stdout().flush();
}

/// Holds a text back if the screen is taken: it is shown there, and written once the screen is left.
pub(crate) fn hold(to: To, text: &str) -> bool {
    let mut held = held();
    let Some(held) = held.as_mut() else { return false };
    if held.texts.len() == TEXTS {
        held.texts.pop_front();
        held.left_out += 1;
    }
    held.texts.push_back((to, text.to_owned()));
    true
}

/// The last lines that were meant to go somewhere.
pub(super) fn latest(to: To, count: usize) -> Vec<String> {
    let held = held();
    let texts = held.iter().flat_map(|held| held.texts.iter().rev()).filter(|(other, _)| *other == to);
    let mut lines: Vec<String> =
        texts.flat_map(|(_, text)| text.lines().rev().map(str::to_owned)).take(count).collect();
    lines.reverse();
    lines
}

/// From now on, a panic gives the screen back before it says what happened.
///
/// To be called before anything else sets a hook: panics that are caught and reported as errors need none of it.
pub(crate) fn leave_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // Whoever panicked may have been about to hold a text back.
            give_back(match HELD.try_lock() {
                Ok(mut held) => held.take(),
                Err(TryLockError::Poisoned(held)) => held.into_inner().take(),
                Err(TryLockError::WouldBlock) => Some(HeldOutput::default()),
            });
            previous(info);
        }));
    });
}

fn held() -> MutexGuard<'static, Option<HeldOutput>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}
