//! What the models of the physics are given by the edge: devices, and the later analyses of a hindcast.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::comm::{Communicator, Host, Nccl, Others, meetings};
use crate::commands::devices::{Choice, Opened};
use crate::commands::ranks::RankArgs;
use crate::device::{Device, Real};
use crate::error::{Error, Result};
use crate::preprocess::Catalogue;
use crate::shallow_water::{Devices, Later};
use crate::time::ValidTime;

/// Every model gets a device of its own, with memory of its own, on the same cores or the same GPU.
pub struct Chosen {
    choice: Choice,
    threads: Option<usize>,
    /// Who shares a layer of the whole globe.
    ranks: RankArgs,
    /// Whether there was one to share.
    shared: AtomicBool,
    description: OnceLock<String>,
}

/// The longest that one device waits for another.
const LIMIT: Duration = Duration::from_secs(600);

impl Chosen {
    /// `threads` are those of each processor; one per core when left out.
    pub fn new(choice: Choice, threads: Option<usize>) -> Self {
        Self::among(choice, threads, RankArgs::default())
    }

    /// As [`new`](Self::new), and a layer of the whole globe is shared among so many.
    pub fn among(choice: Choice, threads: Option<usize>, ranks: RankArgs) -> Self {
        Self { choice, threads, ranks, shared: AtomicBool::new(false), description: OnceLock::new() }
    }

    /// Refuses to go on where ranks were asked for and nothing is shared among them.
    pub fn check_shared(&self) -> Result<()> {
        if self.ranks.flags().is_empty() || self.shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        Err(Error::input(format!("nothing is shared here among ranks, as{} asks", self.ranks.flags()))
            .hint("a shallow layer of the whole globe is: leave the flag out for all else"))
    }

    /// Devices that share a layer.
    fn several<T: Real>(&self) -> Result<Vec<Box<dyn Device<T>>>> {
        let opened = self.ranks.open::<T>(self.choice.into(), self.threads, None)?;
        self.shared.store(true, Ordering::Relaxed);
        let count = opened.len();
        let one = opened[0].device.describe();
        self.description.get_or_init(|| if count == 1 { one } else { format!("{count} x {one}") });
        if count == 1 {
            return Ok(opened.into_iter().map(|opened| opened.device).collect());
        }
        let join = |(mut opened, meeting): (Opened<T>, _)| -> Result<Box<dyn Device<T>>> {
            let group: Box<dyn Communicator<T>> = match opened.gpu {
                true => Box::new(Nccl::new(meeting, &mut *opened.device, LIMIT)?),
                false => Box::new(Host::new(meeting)),
            };
            *opened.device.company() = Some(Box::new(Others::new(Some(group), None)));
            Ok(opened.device)
        };
        // GPUs join each other at once.
        std::thread::scope(|scope| {
            let each = opened.into_iter().zip(meetings(count, LIMIT));
            let threads: Vec<_> = each.map(|one| scope.spawn(move || join(one))).collect();
            let end = |thread: std::thread::ScopedJoinHandle<'_, Result<_>>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(end).collect()
        })
    }

    /// Of the first device that was made; nothing before.
    pub fn describe(&self) -> &str {
        self.description.get().map_or("", String::as_str)
    }

    fn open<T: Real>(&self) -> Result<Box<dyn Device<T>>> {
        let device = Opened::new(self.choice, self.threads)?.device;
        self.description.get_or_init(|| device.describe());
        Ok(device)
    }
}

impl Devices for Chosen {
    fn single(&self) -> Result<Box<dyn Device<f32>>> {
        self.open()
    }

    fn double(&self) -> Result<Box<dyn Device<f64>>> {
        self.open()
    }

    fn singles(&self) -> Result<Vec<Box<dyn Device<f32>>>> {
        self.several()
    }

    fn doubles(&self) -> Result<Vec<Box<dyn Device<f64>>>> {
        self.several()
    }
}

/// The analyses of a catalogue that `may_read` lets through, for driven boundaries.
pub fn later(
    catalogue: Arc<Catalogue>,
    may_read: impl Fn(ValidTime) -> bool + Send + Sync + 'static,
) -> Later {
    Arc::new(move |valid| {
        if !catalogue.has(valid) || !may_read(valid) {
            return Err(Error::input(format!("there is no analysis of {valid}"))
                .hint("driven boundaries need one at every step: forecast less far, or set physics.boundary = \"frozen\""));
        }
        catalogue.read(valid)
    })
}
