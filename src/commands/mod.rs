//! One file a command: its flags, and the few lines that connect the rooms.

pub mod bench;
pub mod bench_io;
mod candidates;
pub mod config;
pub mod forecast;
pub mod index_file;
mod inputs;
mod output;
pub mod inspect;
pub mod plot;
mod progress;
mod report_page;
mod run_folder;
mod score_table;
mod scoring;
pub mod prepare;
pub mod shell;
pub mod verify;
mod verify_data;
pub mod train;
mod training_log;
