//! # Files
//!
//! A file is sniffed ([`inspect_file`]), its header is read and understood by the CF conventions into a [`FileInfo`]
//! without touching its data, and a [`Reader`] then gives its fields one by one in wxsim's own orientation and units.

pub mod atomic;
pub mod forecast_file;
mod forecast_contents;
mod forecast_reader;
mod forecast_variables;
pub mod checkpoint;
pub mod coastlines;
pub mod events;
pub mod rewrite;
mod rewrite_grib;
pub mod run_dir;
pub mod series_file;
pub mod zarr;

// Reading, in the order in which a file is understood.
mod sniff;
mod schema;
mod header;
mod library;
mod slabs;
mod units;
mod time_axis;
mod axes;
mod coordinates;
mod names;
mod packing;
mod cf;
mod info;
mod time_runs;
mod grib;
mod inspect;
mod probe;

// Fields around the library.
mod decode;
mod chunk_tree;
mod chunk_index;
mod chunk_cache;
mod tiles;
mod stored;
mod chunks;
#[cfg(test)]
mod chunk_tests;

mod reader;
mod survey;
mod cost;

pub use cost::StepCost;
pub use info::{
    Dimension, FileInfo, Format, GridKind, Linear, Number, Packing, Problem, Role, Severity, VariableInfo,
};
pub use inspect::{inspect_file, inspect_files};
pub use probe::{Indexer, answer_for};
pub use reader::Reader;
pub use slabs::Slabs;
pub use stored::{Arrangement, StoredField};
pub use survey::{Effort, Survey, problems as survey_problems, survey};
