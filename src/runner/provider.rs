//! What computes a network's steps: its place in a chain, and what it can hand to the next.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::export::Trained;
use crate::field::State;
use crate::model::Memory;
use crate::time::ValidTime;

/// Something that computes the steps of one forecast at a time. An error of kind `Run` means that it is broken.
pub trait Provider: Send {
    /// `cpu (avx512, 2 threads)`
    fn describe(&self) -> String;

    /// Forgets what was before and warms up on analyses, oldest first, which fit the network.
    fn start(&mut self, analyses: &[State]) -> Result<()>;

    /// The step that starts at `from`. Whether it worked may show only in [`state`](Self::state).
    fn step(&mut self, from: ValidTime) -> Result<()>;

    /// The fields after the last step, which belong to `valid`, in physical units.
    fn state(&mut self, valid: ValidTime) -> Result<State>;

    /// Starts to copy all that the steps after `valid`, where it stands, depend on to the host, beside these steps. One copy is
    /// under way at a time.
    fn keep(&mut self, valid: ValidTime) -> Result<()>;

    /// The copy that was started, told once; `None` where nobody waits and it has not arrived.
    fn kept(&mut self, wait: bool) -> Result<Option<Kept>>;

    /// A copy that is waited for.
    fn standing(&mut self, valid: ValidTime) -> Result<Kept> {
        self.keep(valid)?;
        self.kept(true)?.ok_or_else(|| Error::run("the state of the network has not come to the host"))
    }

    /// Goes on from what another provider kept at `valid`.
    fn resume(&mut self, kept: &Kept, valid: ValidTime) -> Result<()>;
}

/// A forecast between two steps, as every provider understands it.
#[derive(Debug, Clone)]
pub struct Kept {
    /// Normalised, `[lat, lon, channel]`.
    pub fields: Vec<f32>,
    /// Of each layer.
    pub memories: Vec<Memory<f32>>,
}

/// A provider that has not been opened.
pub struct Candidate {
    /// `cuda:0`
    pub name: String,
    pub open: Open,
}

/// Opens a provider of a network.
pub type Open = Box<dyn FnOnce(Arc<Trained>) -> Result<Box<dyn Provider>> + Send>;
