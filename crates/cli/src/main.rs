//! The `fairstream` command.

fn main() -> std::process::ExitCode {
    fairstream::main()
}
