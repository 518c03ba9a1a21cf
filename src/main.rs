use std::process::ExitCode;

use clap::Parser;
use wxsim::cli::{self, Cli};
use wxsim::error::{self, Error, Kind};

fn main() -> ExitCode {
    // `wxsim inspect FILE | head` ends quietly, as other commands do.
    sigpipe::reset();
    match cli::run(&Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(match error.kind() {
                Kind::Input => 2,
                Kind::Run => 1,
                Kind::Gate => 3,
                Kind::Interrupted => 130,
            })
        }
    }
}

/// The chain of causes, then what to do about it.
fn report(error: &Error) {
    let word = if error.kind() == Kind::Interrupted { "stopped" } else { "error" };
    eprintln!("{word}: {}", error::chain(error));
    if let Some(advice) = error.advice() {
        eprintln!("hint: {advice}");
    }
}
