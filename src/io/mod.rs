//! Files: reading what the world writes, writing what others can read.

pub mod atomic;
