//! The terminal while a live view uses it. There is one terminal, so the state is global: output to it is held back,
//! and written once the screen is left. The screen is left however the process ends: normally, with an error, by a
//! later interrupt, or by a panic.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

/// The destination of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Output,
    Error,
}

/// Output held back while the screen is in use; `None` while it is not.
static HELD: Mutex<Option<HeldOutput>> = Mutex::new(None);

/// Locked while a frame is drawn, so that the screen is not left in the middle of one. It is locked before [`HELD`].
static DRAWING: Mutex<()> = Mutex::new(());

/// Maximum time to wait for the end of a frame. The thread that draws may be the one that panics, and a terminal may
/// not accept output.
const FRAME_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct HeldOutput {
    texts: VecDeque<(To, String)>,
    left_out: u64,
}

/// Maximum number of texts held back; older ones are dropped.
const TEXTS: usize = 10_000;

pub(super) type Canvas = Terminal<CrosstermBackend<io::Stderr>>;

/// Enters the alternate screen.
pub(super) fn enter() -> io::Result<Canvas> {
    *held() = Some(HeldOutput::default());
    let entered = enable_raw_mode()
        .and_then(|()| execute!(io::stderr(), EnterAlternateScreen))
        .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
    entered.inspect_err(|_| leave())
}

/// Calls `draw` if the alternate screen is in use.
pub(super) fn draw_if_in_use(draw: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let _drawing = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_in_use = held().is_some();
    if is_in_use { draw() } else { Ok(()) }
}

/// Waits until no frame is being drawn, at most [`FRAME_LIMIT`].
fn wait_for_frame() -> Option<MutexGuard<'static, ()>> {
    let start = Instant::now();
    loop {
        match DRAWING.try_lock() {
            Ok(drawing) => return Some(drawing),
            Err(TryLockError::Poisoned(drawing)) => return Some(drawing.into_inner()),
            Err(TryLockError::WouldBlock) if start.elapsed() >= FRAME_LIMIT => return None,
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// Leaves the alternate screen if it is in use, and writes the output that was held back.
pub(crate) fn leave() {
    let _drawing = wait_for_frame();
    let held = held().take();
    restore(held);
}

fn restore(held: Option<HeldOutput>) {
    let Some(HeldOutput { texts, left_out }) = held else { return };
    // If the terminal is gone, there is nothing to restore.
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

/// Holds a text back if the screen is in use, and returns whether it did. The text is written once the screen is left.
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

/// The last lines held back for a destination.
pub(super) fn latest(to: To, count: usize) -> Vec<String> {
    let held = held();
    let texts = held.iter().flat_map(|held| held.texts.iter().rev()).filter(|(other, _)| *other == to);
    let mut lines: Vec<String> =
        texts.flat_map(|(_, text)| text.lines().rev().map(str::to_owned)).take(count).collect();
    lines.reverse();
    lines
}

/// Installs a panic hook that leaves the alternate screen before the panic is printed.
///
/// Must be called before any other hook is installed, so that panics that are caught and reported as errors do not end
/// the view.
pub(crate) fn leave_on_panic() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let drawing = wait_for_frame();
            // The panicking thread may hold the lock.
            restore(match HELD.try_lock() {
                Ok(mut held) => held.take(),
                Err(TryLockError::Poisoned(held)) => held.into_inner().take(),
                Err(TryLockError::WouldBlock) => Some(HeldOutput::default()),
            });
            drop(drawing);
            previous(info);
        }));
    });
}

fn held() -> MutexGuard<'static, Option<HeldOutput>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}
