//! `wxsim decode-analysis`: the child process in which arriving files are decoded. Not for people.

use std::io::Write;
use std::path::PathBuf;

use crate::commands::run_folder;
use crate::error::{Context, Error, Result};
use crate::runner::Trained;
use crate::serve::{Answer, Decoded, Refusal, decode};

/// Decode the analyses in a file for another wxsim process: one line of JSON.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run that says how the file is to be understood
    #[arg(long)]
    model: PathBuf,
    /// Where decoded fields go
    #[arg(long)]
    out: PathBuf,
    file: PathBuf,
}

/// Memory that this process may address [bytes].
const MEMORY: u64 = 16 << 30;
/// Processor time that it may use [s], should the parent be gone.
const PROCESSOR_SECONDS: u64 = 3600;

pub fn run(args: &Args) -> Result<()> {
    for (resource, most) in [
        (rlimit::Resource::AS, MEMORY),
        (rlimit::Resource::CPU, PROCESSOR_SECONDS),
        (rlimit::Resource::CORE, 0),
    ] {
        let (_, hard) = resource.get().unwrap_or((0, rlimit::INFINITY));
        // A limit that cannot be set leaves the parent's clock, which is enough.
        let _ = resource.set(most.min(hard), hard);
    }
    let answer = decode_file(args).map_or_else(|error| Answer::Refused(Refusal::of(&error)), Answer::Decoded);
    let text = serde_json::to_vec(&answer)
        .map_err(|error| Error::run("the answer cannot be written").caused_by(error))?;
    std::io::stdout().lock().write_all(&text).context(|| "cannot answer".into())
}

fn decode_file(args: &Args) -> Result<Vec<Decoded>> {
    if args.file.to_str().is_none() {
        return Err(Error::input("its name is not UTF-8, and the NetCDF library opens no such file")
            .hint("bring it under another name"));
    }
    let config = run_folder::config(&run_folder::folder(&args.model)?)?;
    let catalogue = run_folder::part(&config, &args.file)?;
    let trained = Trained::open(&args.model)?;
    decode(&trained, &catalogue, &args.out)
}
