//! One file a command: its flags, and the few lines that connect the rooms.

pub mod bench;
pub mod bench_io;
mod candidates;
pub mod config;
pub mod forecast;
mod forecast_files;
pub mod index_file;
mod inputs;
mod output;
pub mod inspect;
mod nature_run;
pub mod physics;
mod physics_case;
mod physics_inputs;
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
mod verify_physics;
pub mod train;
mod training_log;
