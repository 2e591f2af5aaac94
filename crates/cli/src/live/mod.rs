//! `run --live`: how things stand while they move. On a terminal it takes the screen; elsewhere it is a line now and
//! then.

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

/// Between two looks.
const FRAME: Duration = Duration::from_millis(100);
/// Between two lines, where there is no screen.
const LINE: Duration = Duration::from_secs(5);
/// A look may take no more than one part in so many of the time: who looks keeps the judge waiting.
const SHARE: u32 = 10;

/// Whether there is a screen to draw on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Screen {
    /// There is, in colour or not.
    Free { is_coloured: bool },
    /// Lines have to do.
    None,
}

impl Screen {
    /// The view is drawn on standard error. Nobody else may need the terminal meanwhile: no sink that writes verdicts
    /// there, no events that are typed.
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

/// A view of a run that goes on until this is dropped.
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
                    // Once the terminal is gone, it is left alone: whoever asks it for keys would ask for ever.
                    turn(drawn_on, &mut view, &mut sampler, &interrupt).unwrap_or_else(|_| {
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
        // First it ends, then the screen is left.
        drop(self.0.take());
        leave();
    }
}

/// Draws how things stand, and hears what the user wants; says how long to wait.
///
/// # Errors
/// The terminal cannot be drawn on any more.
fn turn(
    canvas: &mut Canvas,
    view: &mut LiveView,
    sampler: &mut RunSampler,
    interrupt: &Interrupt,
) -> io::Result<Duration> {
    let start = Instant::now();
    let model = sampler.sample(start);
    // A panic elsewhere has given the screen back: it stays so.
    if screen::is_taken() {
        let lines = |to, count| screen::latest(to, count);
        canvas.draw(|frame| view.draw(frame, &model, lines))?;
    }
    // Where keys cannot be read, signals still can be sent. Without any time, nobody would look for keys.
    while event::poll(Duration::from_millis(1)).unwrap_or(false) {
        match event::read() {
            Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => hear(key, view, interrupt),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(FRAME.max(start.elapsed() * SHARE))
}

fn hear(key: KeyEvent, view: &mut LiveView, interrupt: &Interrupt) {
    match key.code {
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => interrupt.happen(),
        KeyCode::Char('q') => interrupt.happen(),
        KeyCode::Up | KeyCode::Char('k') => view.scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => view.scroll(1),
        KeyCode::PageUp => view.scroll(-10),
        KeyCode::PageDown | KeyCode::Char(' ') => view.scroll(10),
        KeyCode::Home => view.scroll(isize::MIN),
        KeyCode::End => view.scroll(isize::MAX),
        _ => {}
    }
}
