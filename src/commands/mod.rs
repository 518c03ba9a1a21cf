//! One file a command: its flags, and the few lines that connect the rooms.

pub mod bench;
pub mod config;
pub mod index_file;
pub mod inspect;
pub mod plot;
pub mod shell;
