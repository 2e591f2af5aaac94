//! The `fairstream` command as the tests run it: the same one-line `main`, built in this package so that cargo
//! provides its path to the tests. It can be made to panic during a run, for one of the tests.

use std::time::Duration;

fn main() -> std::process::ExitCode {
    if std::env::var_os("FAIRSTREAM_TEST_PANIC").is_some() {
        std::thread::spawn(|| {
            std::thread::sleep(Duration::from_secs(2));
            #[allow(clippy::panic, reason = "that is what is tested")]
            {
                panic!("as a test wants it");
            }
        });
    }
    fairstream::main()
}
