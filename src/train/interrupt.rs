//! Ctrl-C and SIGTERM ask a training to stop after its step; a second ctrl-C stops it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::{Context, Result};

/// Whether somebody asked to stop.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

/// What the shell expects of a program that ended by ctrl-C.
const INTERRUPTED: i32 = 130;

impl Interrupt {
    /// Listens to the signals of this process from now on.
    pub fn on_signals() -> Result<Self> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order the first signal finds the flag unset and sets it; the second one finds it set and exits.
            signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, interrupt.0.clone())
                .and_then(|_| signal_hook::flag::register(signal, interrupt.0.clone()))
                .context(|| "cannot listen to signals".into())?;
        }
        Ok(interrupt)
    }

    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
