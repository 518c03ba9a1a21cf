//! Data go to standard output; when that cannot take them (a full disk), the command has failed.

use std::io::Write;

use crate::error::{Context, Result};

/// Writes `text` as it is.
pub fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context(|| "cannot write to standard output".into())
}

/// Writes `text` and ends the line.
pub fn print_line(text: &str) -> Result<()> {
    print(&format!("{text}\n"))
}
