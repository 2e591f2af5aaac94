//! `run --live`: shows rates, gaps and alarms during a run. On a terminal it uses the whole screen; elsewhere it prints
//! a line every 5 s.

mod screen;
mod view;
mod view_model;

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use self::screen::Canvas;
use self::view::LiveView;
use crate::args::{Colour, RunArguments};
use crate::interrupt::Interrupt;
use crate::load::Monitor;
use crate::repeat::Repeat;
use crate::{note, outputs};

pub(crate) use self::screen::{To, hold, leave, leave_on_panic};
pub(crate) use self::view_model::RunSampler;

/// Minimum time between two frames.
const FRAME: Duration = Duration::from_millis(100);
/// Time between two lines, without a screen.
const LINE: Duration = Duration::from_secs(5);
/// A frame is followed by a pause of this many times its duration, since sampling blocks the judge.
const SHARE: u32 = 10;

/// Whether the live view can use the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    /// The screen is free.
    Free { is_coloured: bool },
    /// There is no screen, so lines are printed instead.
    None,
}

impl Screen {
    /// The view is drawn on standard error. It requires that no sink writes to the terminal and no events are typed.
    pub(crate) fn of(arguments: &RunArguments, monitor: &Monitor) -> Screen {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_written = outputs::wanted(arguments, monitor).iter().any(|sink| sink.location == "-");
        let is_typed = monitor.inputs.iter().any(|input| input.location == "-");
        let is_taken = is_written && io::stdout().is_terminal() || is_typed && io::stdin().is_terminal();
        if !io::stderr().is_terminal() || is_dumb || is_taken {
            return Screen::None;
        }
        let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let is_coloured = match arguments.color {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => !is_plain,
        };
        Screen::Free { is_coloured }
    }
}

/// A live view of a run, which ends when this is dropped.
pub(crate) struct Live(Option<Repeat>);

impl Live {
    pub(crate) fn start(mut sampler: RunSampler, interrupt: Interrupt, screen: Screen) -> Live {
        let canvas = match screen {
            Screen::None => None,
            Screen::Free { is_coloured } => match screen::enter() {
                Ok(canvas) => Some((canvas, LiveView::new(is_coloured))),
                Err(error) => {
                    note(&format!("the terminal cannot be drawn on ({error}); a line now and then instead"));
                    None
                }
            },
        };
        Live(Some(match canvas {
            Some((canvas, mut view)) => {
                let mut canvas = Some(canvas);
                Repeat::after(Duration::ZERO, move |is_last| {
                    let Some(drawn_on) = canvas.as_mut().filter(|_| !is_last) else { return FRAME };
                    // Once the terminal is gone, it is not used any more, since polling it for keys would never return.
                    draw_frame(drawn_on, &mut view, &mut sampler, &interrupt).unwrap_or_else(|_| {
                        canvas = None;
                        FRAME
                    })
                })
            }
            None => Repeat::after(LINE, move |_| {
                note(&sampler.sample(Instant::now()).line());
                LINE
            }),
        }))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // The thread ends before the screen is left.
        drop(self.0.take());
        leave();
    }
}

/// Draws a frame and handles keys. Returns the time to wait until the next frame.
///
/// # Errors
/// The terminal cannot be drawn on.
fn draw_frame(
    canvas: &mut Canvas,
    view: &mut LiveView,
    sampler: &mut RunSampler,
    interrupt: &Interrupt,
) -> io::Result<Duration> {
    let start = Instant::now();
    let model = sampler.sample(start);
    // A panic in another thread may have left the screen, which is not entered again.
    screen::draw_if_in_use(|| {
        let lines = |to, count| screen::latest(to, count);
        canvas.draw(|frame| view.draw(frame, &model, lines)).map(drop)
    })?;
    // If keys cannot be read, signals still work. A timeout of zero would never read keys.
    while event::poll(Duration::from_millis(1)).unwrap_or(false) {
        match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => handle_key(key, view, interrupt),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(FRAME.max(start.elapsed() * SHARE))
}

fn handle_key(key: KeyEvent, view: &mut LiveView, interrupt: &Interrupt) {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => interrupt.handle(),
        KeyCode::Char('q') => interrupt.handle(),
        KeyCode::Up | KeyCode::Char('k') => view.scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => view.scroll(1),
        KeyCode::PageUp => view.scroll(-10),
        KeyCode::PageDown | KeyCode::Char(' ') => view.scroll(10),
        KeyCode::Home => view.scroll(isize::MIN),
        KeyCode::End => view.scroll(isize::MAX),
        _ => {}
    }
}
