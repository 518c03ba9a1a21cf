//! Pictures for people: maps of fields, and the page that says how good the forecasts are.
//!
//! Nothing here computes a score or reads a file; scores come from `verify`, fields and coastlines as plain data.

pub mod contour;
pub mod encode;
pub mod image;
pub mod map;
pub mod names;
pub mod palette;
pub mod sample;
pub mod scale;
pub mod text;
pub mod view;
