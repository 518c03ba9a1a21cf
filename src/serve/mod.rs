//! # The operational loop
//!
//! ```text
//! inbox -> intake -> ledger -> decision -> cycle -> publish
//! ```
//!
//! Analyses arrive in a folder ([`Inbox`](inbox)). Each file is decoded by a process of its own ([`intake`], [`decode`]) and its fields
//! are kept. A [`Timetable`], or the arrival itself, asks for cycles; a cycle that has what it needs begins on the device
//! with the least to do, goes on from the recurrent state of the one before or warms up anew ([`decision`]), and is published once, whole
//! ([`publish`]). What came and what was made stands in a small database ([`Ledger`]), so that a crash at any moment loses nothing.

mod cycle;
mod decision;
mod decode;
mod events;
mod folders;
mod inbox;
mod intake;
mod ledger;
mod memory;
mod plan;
mod pool;
mod publish;
mod schedule;
mod service;
mod skill;
mod store;
mod stored;
mod watch;

pub use cycle::Served;
pub use decode::{Answer, Decoded, Refusal, decode};
pub use events::{Event, Level, Listener, Standing};
pub use intake::Decoder;
pub use ledger::{Cycle, CycleState, Ledger, SeenFile};
pub use plan::{
    CanaryPlan, Complete, DevicesPlan, DriftPlan, Duplicates, InboxPlan, KeepPlan, Late, LatenessPlan,
    LevelsPlan, ModelPlan, RetryPlan, ServePlan, SkillPlan, Start, WatchPlan,
};
pub use schedule::{Clock, Timetable, init};
pub use service::{Open, Service, Until};
pub use watch::{Reading, Reference, Say, Watch};
