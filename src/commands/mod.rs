//! One file a command: its flags, and the few lines that connect the rooms.

pub mod config;
pub mod plot;
pub mod shell;
