//! Physical constants, each with its unit and source. No other file writes these numbers.

/// Standard gravity, by which geopotential becomes geopotential height [m s⁻²] (ISO 80000-3; ECMWF's choice).
pub const STANDARD_GRAVITY: f64 = 9.806_65;
/// Mean radius of the earth [m] (ECMWF IFS).
pub const EARTH_RADIUS: f64 = 6.371_229e6;
/// Angular velocity of the earth, sidereal [rad s⁻¹] (IERS Conventions 2010).
pub const EARTH_ROTATION: f64 = 7.292_115e-5;
/// The earth of Williamson et al. (1992, doi:10.1016/S0021-9991(05)80016-6): radius [m], rotation [rad s⁻¹], gravity
/// [m s⁻²].
pub const WILLIAMSON: [f64; 3] = [6.371_22e6, 7.292e-5, 9.806_16];
/// The troposphere of the standard atmosphere (ISO 2533): sea level pressure [hPa] and temperature [K], lapse rate [K m⁻¹],
/// and the power of pressure with which temperature falls.
pub const STANDARD_ATMOSPHERE: [f64; 4] = [1013.25, 288.15, 6.5e-3, 0.190_263];
/// Total solar irradiance at one astronomical unit [W m⁻²] (Kopp and Lean 2011, doi:10.1029/2010GL045777).
pub const SOLAR_CONSTANT: f64 = 1360.8;
/// Freezing point of water [K].
pub const CELSIUS_ZERO: f64 = 273.15;
/// Seconds in a civil day [s].
pub const DAY_SECONDS: i64 = 86_400;
