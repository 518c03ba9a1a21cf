//! One error for the whole library: what was expected, what was found, where, and what to do about it.

use std::fmt;

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who has to act on an error; the binary turns it into an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The files, the configuration or the flags are wrong (exit 2).
    Input,
    /// The run itself failed: disk, memory, a non-finite loss (exit 1).
    Run,
    /// The work is done, but a quality bound that the user set was not met (exit 3).
    Gate,
    /// The user asked to stop; everything worth keeping is saved (exit 130).
    Interrupted,
}

/// A sentence, the sentences that explain it, and a hint.
#[derive(Debug)]
pub struct Error {
    kind: Kind,
    message: String,
    hint: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, source: None }
    }

    /// The user's files, configuration or flags are wrong.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Kind::Input, message)
    }

    /// The run failed for a reason outside the user's input.
    pub fn run(message: impl Into<String>) -> Self {
        Self::new(Kind::Run, message)
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Says what was being done when this error happened; kind and hint stay.
    #[must_use]
    pub fn context(self, message: impl Into<String>) -> Self {
        Self { kind: self.kind, message: message.into(), hint: None, source: Some(Box::new(self)) }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The hint nearest to the cause, wherever in the chain it was given.
    pub fn advice(&self) -> Option<&str> {
        let deeper =
            self.source.as_ref().and_then(|source| source.downcast_ref::<Error>()).and_then(Error::advice);
        deeper.or(self.hint.as_deref())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

/// Adds what was being done to any result.
pub trait Context<T> {
    /// A failure of the operating system or a library while doing `what` becomes an [`Error`] of kind `Run`;
    /// an [`Error`] keeps its kind.
    fn context(self, what: impl FnOnce() -> String) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| error.context(what()))
    }
}

impl<T> Context<T> for std::io::Result<T> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| Error::run(what()).caused_by(error))
    }
}

/// The whole chain in one line, most general first.
pub fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_keeps_kind_and_hint_and_prints_outermost_first() {
        let error = Error::input("latitude runs twice").hint("remove the second file").context("a.nc");
        assert_eq!(error.kind(), Kind::Input);
        assert_eq!(error.advice(), Some("remove the second file"));
        assert_eq!(chain(&error), "a.nc: latitude runs twice");
    }
}
