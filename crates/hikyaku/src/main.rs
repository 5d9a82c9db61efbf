//! The program, without plugins.

use std::process::ExitCode;

fn main() -> ExitCode {
    hikyaku::main()
}
