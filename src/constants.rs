//! Physical constants, each with its unit and source. No other file writes these numbers.

/// Standard gravity, by which geopotential becomes geopotential height [m s⁻²] (ISO 80000-3; ECMWF's choice).
pub const STANDARD_GRAVITY: f64 = 9.806_65;
/// Mean radius of the earth [m] (ECMWF IFS).
pub const EARTH_RADIUS: f64 = 6.371_229e6;
/// Total solar irradiance at one astronomical unit [W m⁻²] (Kopp and Lean 2011, doi:10.1029/2010GL045777).
pub const SOLAR_CONSTANT: f64 = 1360.8;
/// Freezing point of water [K].
pub const CELSIUS_ZERO: f64 = 273.15;
/// Seconds in a civil day [s].
pub const DAY_SECONDS: i64 = 86_400;
