use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use wxsim::cli::{self, Cli};
use wxsim::error::{self, Error, Kind};

fn main() -> ExitCode {
    without_file_locks();
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

/// What HDF5 reads once from the environment of a process.
const FILE_LOCKS: &str = "HDF5_USE_FILE_LOCKING";

/// Becomes this program once more, with HDF5's file locks off, unless the environment says what to do about them.
///
/// HDF5 opens files so that child processes inherit them, and with them their locks: while a child indexes one file
/// (`io::probe`), no file that was being written when it started could be opened, although it is finished. Nothing here
/// needs the locks, since our files get their names when they are whole. A process cannot safely change its own
/// environment; becoming the same program again takes a millisecond.
fn without_file_locks() {
    if std::env::var_os(FILE_LOCKS).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let Ok(this) = std::env::current_exe() else { return };
    let mut command = Command::new(this);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // Comes back only when it fails; then the locks stay, which seldom matters.
    let _ = command.args(arguments).env(FILE_LOCKS, "FALSE").exec();
}

/// The chain of causes, then what to do about it.
fn report(error: &Error) {
    let word = if error.kind() == Kind::Interrupted { "stopped" } else { "error" };
    eprintln!("{word}: {}", error::chain(error));
    if let Some(advice) = error.advice() {
        eprintln!("hint: {advice}");
    }
}
