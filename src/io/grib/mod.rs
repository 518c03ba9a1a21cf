//! GRIB edition 2 (WMO Manual on Codes, Vol. I.2, FM 92): a file of messages, each one or more fields on a grid.
//!
//! Only the sections' headers are read to say what a file holds ([`index`]): every length in them is checked against the
//! file before anything is read or allocated. The index then looks like the header of a NetCDF file, with one variable for
//! each parameter, so that all that is known about calendars, levels and grids holds for it as well, and each field is
//! the place of its sections ([`Messages`]). A field is decoded when it is asked for ([`GribFile`]).
//!
//! Bits are unpacked here, in float64: simple and complex packing, with spatial differences, and IEEE numbers. The three
//! codecs that pack the bits further (PNG, JPEG 2000, CCSDS) are crates without C.

mod sections;
mod time;
mod grid;
mod vertical;
mod parameters;
mod product;
mod header;
mod index;
mod bits;
mod unpack;
mod codecs;
mod file;

pub use file::GribFile;
pub use index::{Messages, index};
