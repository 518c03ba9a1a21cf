//! The operational loop as an operations centre meets it: files arrive, whole, broken, late, twice; the program is killed;
//! every good cycle is published once, whole, with the numbers of an undisturbed service.

mod arrival;
mod browser;
mod canary;
mod centre;
mod clock;
mod disk;
mod page;
mod steady;
mod storm;
mod timetable;
#[path = "../waves/mod.rs"]
mod waves;
mod zarr;
