//! TBD

pub mod train;
