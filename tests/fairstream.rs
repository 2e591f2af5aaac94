//! The `fairstream` command as the tests run it: the same one-line `main`, built into this package
//! so that cargo tells the tests where it is.

fn main() -> std::process::ExitCode {
    fairstream::main()
}
