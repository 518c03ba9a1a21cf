//! # wxsim: neural weather simulation
//!
//! ```text
//! NetCDF files -> io -> preprocess -> model -> train -> runner -> forecast -> verify -> report
//! ```
//!
//! The modules below stand in the order in which data flows through them; read them in that order. A module knows
//! only modules above it, and of those only the ones that README's map allows (`tests/layering.rs` reads the `use`
//! lines and says so).

// The vocabulary: what everybody may speak of.
pub mod constants;
pub mod error;
pub mod time;
pub mod grid;
pub mod variable;
pub mod field;
pub mod climatology;
pub mod stepper;

// The machine.
pub mod device;
pub mod comm;

// The pipeline.
pub mod io;
pub mod preprocess;
pub mod model;
pub mod train;
pub mod export;
pub mod runner;
pub mod shallow_water;
pub mod forecast;
pub mod verify;
pub mod plan;
pub mod report;
pub mod serve;

// The edge.
pub mod config;
pub mod cli;
pub mod commands;
