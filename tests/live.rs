//! `run --live` in a terminal: the content of the screen, and that the terminal is restored however the run ends.

use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::cli::Folder;
use crate::process::wait_for;
use crate::support::{fairstream, root};

/// A terminal in which a shell runs one command.
struct Terminal {
    master: Box<dyn MasterPty>,
    keys: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    screen: Arc<Mutex<vt100::Parser>>,
}

fn size(rows: u16, cols: u16) -> PtySize {
    PtySize { rows, cols, ..PtySize::default() }
}

impl Terminal {
    /// Runs `fairstream` at the root, then prints its exit code and the settings of the terminal.
    fn run(arguments: &str, before: &str) -> Terminal {
        let pair = native_pty_system().openpty(size(24, 80)).unwrap();
        let binary = fairstream().get_program().to_owned().into_string().unwrap();
        let mut command = CommandBuilder::new("sh");
        command.args([
            "-c",
            &format!("trap : INT; {before} '{binary}' {arguments}; echo \"code $?\"; stty -a | tr ';' '\\n' | grep icanon; echo done"),
        ]);
        command.env("TERM", "xterm-256color");
        command.env("NO_COLOR", "");
        command.cwd(root());
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 1000)));
        let mut output = pair.master.try_clone_reader().unwrap();
        let shown = Arc::clone(&screen);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                shown.lock().unwrap().process(&bytes[..count]);
            }
        });
        let keys = pair.master.take_writer().unwrap();
        Terminal { master: pair.master, keys, child, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    fn wait_for(&self, what: &str) {
        let start = Instant::now();
        while !self.text().contains(what) {
            assert!(start.elapsed() < Duration::from_secs(60), "no `{what}` on the screen:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.keys.write_all(keys).unwrap();
    }

    /// Waits until the live view is shown.
    fn wait_until_live(&self) {
        self.wait_for("stops in good order");
        assert!(self.screen.lock().unwrap().screen().alternate_screen(), "{}", self.text());
    }

    /// The final content of the screen. Checks that it is the normal screen, with a cursor and echo.
    fn end(mut self) -> String {
        self.wait_for("done");
        self.child.wait().unwrap();
        let text = self.text();
        let screen = self.screen.lock().unwrap();
        let screen = screen.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "{text}");
        assert!(text.contains("isig icanon") && text.contains(" echo "), "{text}");
        text
    }
}

/// A run that does not end by itself.
const ENDLESS: &str = "run specs/hiring.toml 'hiring:?applicants=100000000' --live";

#[test]
fn rates_move_on_a_screen_of_any_size_and_ctrl_c_stops_in_good_order() {
    let mut terminal = Terminal::run(ENDLESS, "");
    terminal.wait_until_live();
    terminal.wait_for("ALARM since 600s");
    for what in [
        "Hiring, demographic parity",
        "/s  reached ",
        "gap 0.",
        " of 0.1 allowed",
        "  F 0.",
        "  M 0.",
        "latest",
    ] {
        terminal.wait_for(what);
    }
    let events = || {
        terminal
            .text()
            .lines()
            .nth(1)
            .and_then(|line| line.split_once(" events").map(|(count, _)| count.to_owned()))
    };
    let before = events();
    wait_for("more events", || events() != before);
    terminal.screen.lock().unwrap().screen_mut().set_size(10, 44);
    terminal.master.resize(size(10, 44)).unwrap();
    // The line below the head has the width of the screen, and the last row is used.
    wait_for("a smaller screen", || {
        let text = terminal.text();
        let rows: Vec<&str> = text.lines().collect();
        rows.get(2) == Some(&"─".repeat(44).as_str())
            && rows.get(9).is_some_and(|row| row.starts_with("q or Ctrl-C stops"))
    });
    terminal.screen.lock().unwrap().screen_mut().set_size(24, 80);
    terminal.master.resize(size(24, 80)).unwrap();
    terminal.press(b"\x03");
    let text = terminal.end();
    assert!(text.contains("code 130"), "{text}");
    // Output that was held back is printed: the alarm, the summary, and the message about stopping.
    for what in [
        "ALARM  demographic parity: M",
        "demographic parity: ALARM since 600s",
        "stopping after what has been read",
    ] {
        assert!(text.contains(what), "no `{what}` in\n{text}");
    }
}

#[test]
fn a_terminal_that_goes_away_takes_the_run_with_it() {
    let pair = native_pty_system().openpty(size(24, 80)).unwrap();
    let mut command = CommandBuilder::new(fairstream().get_program());
    command.args(ENDLESS.replace('\'', "").split(' '));
    command.env("TERM", "xterm-256color");
    command.cwd(root());
    let mut child = pair.slave.spawn_command(command).unwrap();
    drop(pair.slave);
    let mut output = pair.master.try_clone_reader().unwrap();
    let mut shown = vt100::Parser::new(24, 80, 0);
    let mut bytes = [0; 4096];
    while !shown.screen().contents().contains("stops in good order") {
        let count = output.read(&mut bytes).unwrap();
        shown.process(&bytes[..count]);
    }
    drop((output, pair.master));
    wait_for("the end of the run", || child.try_wait().unwrap().is_some());
}

#[test]
fn keys_stop_and_a_run_that_ends_leaves_its_summary() {
    let mut terminal = Terminal::run(ENDLESS, "");
    terminal.wait_until_live();
    terminal.press(b"jjq");
    assert!(terminal.end().contains("code 130"));

    let text = Terminal::run("run specs/hiring.toml examples/hiring/events.csv --live", "").end();
    assert!(
        text.contains("M 0.500 (5 of 10) and F 0.111 (1 of 9), estimated at 0.500 and 0.394, differ by"),
        "{text}"
    );
    assert!(text.contains("162 events, 1 alarm") && text.contains("code 1"), "{text}");
}

#[test]
fn an_error_and_a_panic_can_be_read() {
    let rows = r#"(printf '{"time":1,"id":1,"gender":"F"}\n'; sleep 2; printf '{"time":2,"id":"x"}\n') |"#;
    let terminal = Terminal::run("run specs/hiring.toml - --live", rows);
    terminal.wait_until_live();
    let text = terminal.end();
    assert!(text.contains("row 2, column `id`") && text.contains("code 2"), "{text}");

    // The panic occurs on a separate thread: the run continues without the view.
    let mut terminal = Terminal::run(ENDLESS, "FAIRSTREAM_TEST_PANIC=1 RUST_BACKTRACE=0");
    terminal.wait_until_live();
    terminal.wait_for("as a test wants it");
    assert!(!terminal.screen.lock().unwrap().screen().alternate_screen(), "{}", terminal.text());
    terminal.press(b"\x03");
    let text = terminal.end();
    assert!(text.contains("panicked at") && text.contains("code 130"), "{text}");
}

#[test]
fn without_a_terminal_it_is_lines() {
    let hiring = std::fs::read_to_string(root().join("specs/hiring.toml")).unwrap();
    let folder = Folder::new().file("hiring.toml", hiring);
    let printed = folder.run("run hiring.toml hiring:?applicants=100 --live");
    let line = "| demographic parity: gap 0.";
    assert!(printed.contains(line) && printed.contains(" of 0.1 allowed, ALARM since 600s\n"), "{printed}");
    assert!(!printed.contains('\u{1b}'), "{printed}");
    let printed = folder.run("run spec.lola nothing.csv --live");
    assert!(printed.ends_with("exit code 2\n"), "{printed}");
}
