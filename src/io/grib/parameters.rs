//! Parameters by number (code table 4.2): short names of ECMWF, CF standard names and units.
//!
//! The names are those of ecCodes 2.50, its units written as CF does. What the table does not hold is read under its
//! numbers, without a unit.

use super::vertical::{GROUND, MEAN_SEA, Vertical};

/// Where a row of the table holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Where {
    Pressure,
    Ground,
    Sea,
    /// At a height above ground [m].
    Above(f64),
    Column,
    Anywhere,
    /// Where no other row of its parameter holds.
    Elsewhere,
}

/// What a row of the table holds for: values of a moment, or sums over a period.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum When {
    /// Also means and extremes, which keep the unit.
    Moment,
    Sum,
}

/// A row of the table.
#[derive(Debug)]
pub struct Parameter {
    /// Discipline, category and number.
    pub id: (u8, u8, u8),
    /// Of the tables of this centre alone.
    pub centre: Option<u16>,
    pub at: Where,
    pub when: When,
    pub name: &'static str,
    pub standard_name: Option<&'static str>,
    pub long_name: &'static str,
    pub units: &'static str,
}

/// Of common code table C-11.
const ECMWF: Option<u16> = Some(98);
const NCEP: Option<u16> = Some(7);

use When::{Moment, Sum};
use Where::{Above, Anywhere, Column, Elsewhere, Ground, Pressure, Sea};

macro_rules! parameter {
    ($d:literal $c:literal $n:literal, $at:expr, $when:ident, $name:literal, $standard:literal, $long:literal, $units:literal) => {
        parameter!($d $c $n of None, $at, $when, $name, $standard, $long, $units)
    };
    ($d:literal $c:literal $n:literal of $centre:expr, $at:expr, $when:ident, $name:literal, $standard:literal, $long:literal, $units:literal) => {
        Parameter {
            id: ($d, $c, $n), centre: $centre, at: $at, when: $when, name: $name,
            standard_name: if $standard.is_empty() { None } else { Some($standard) },
            long_name: $long, units: $units,
        }
    };
}

#[rustfmt::skip]
static PARAMETERS: &[Parameter] = &[
    parameter!(0 0 0, Pressure, Moment, "t", "air_temperature", "temperature", "K"),
    parameter!(0 0 0, Above(2.0), Moment, "2t", "air_temperature", "2 metre temperature", "K"),
    parameter!(0 0 2, Pressure, Moment, "pt", "air_potential_temperature", "potential temperature", "K"),
    parameter!(0 0 4, Above(2.0), Moment, "tmax", "", "maximum temperature", "K"),
    parameter!(0 0 5, Above(2.0), Moment, "tmin", "", "minimum temperature", "K"),
    parameter!(0 0 6, Pressure, Moment, "dpt", "", "dew point temperature", "K"),
    parameter!(0 0 6, Above(2.0), Moment, "2d", "dew_point_temperature", "2 metre dew point temperature", "K"),
    parameter!(0 0 10, Ground, Sum, "slhf", "", "time-integrated surface latent heat flux", "J m-2"),
    parameter!(0 0 10, Ground, Moment, "slhtf", "", "surface latent heat flux", "W m-2"),
    parameter!(0 0 11, Ground, Sum, "sshf", "", "time-integrated surface sensible heat flux", "J m-2"),
    parameter!(0 0 11, Ground, Moment, "shtfl", "", "surface sensible heat flux", "W m-2"),
    parameter!(0 0 17, Ground, Moment, "skt", "surface_temperature", "skin temperature", "K"),
    parameter!(0 1 0, Pressure, Moment, "q", "specific_humidity", "specific humidity", "kg kg-1"),
    parameter!(0 1 0, Above(2.0), Moment, "2sh", "", "2 metre specific humidity", "kg kg-1"),
    parameter!(0 1 1, Pressure, Moment, "r", "relative_humidity", "relative humidity", "%"),
    parameter!(0 1 1, Above(2.0), Moment, "2r", "", "2 metre relative humidity", "%"),
    parameter!(0 1 3, Column, Moment, "pwat", "atmosphere_mass_content_of_water_vapor", "precipitable water", "kg m-2"),
    parameter!(0 1 7, Ground, Moment, "prate", "precipitation_flux", "precipitation rate", "kg m-2 s-1"),
    parameter!(0 1 8, Ground, Sum, "tp", "precipitation_amount", "total precipitation", "kg m-2"),
    parameter!(0 1 9, Ground, Sum, "ncpcp", "", "large-scale precipitation", "kg m-2"),
    parameter!(0 1 10, Ground, Sum, "acpcp", "", "convective precipitation", "kg m-2"),
    parameter!(0 1 11, Ground, Moment, "sde", "", "snow depth", "m"),
    parameter!(0 1 13, Ground, Moment, "sdwe", "", "water equivalent of snow depth", "kg m-2"),
    parameter!(0 1 22, Pressure, Moment, "clwmr", "", "cloud mixing ratio", "kg kg-1"),
    parameter!(0 1 23, Pressure, Moment, "icmr", "", "ice water mixing ratio", "kg kg-1"),
    parameter!(0 1 37, Ground, Sum, "cp", "", "convective precipitation", "kg m-2"),
    parameter!(0 1 51, Column, Moment, "tcwat", "", "total column water", "kg m-2"),
    parameter!(0 1 52, Ground, Sum, "tp", "precipitation_amount", "total precipitation", "kg m-2"),
    parameter!(0 1 52, Ground, Moment, "tprate", "precipitation_flux", "total precipitation rate", "kg m-2 s-1"),
    parameter!(0 1 53, Ground, Sum, "sf", "", "snowfall water equivalent", "kg m-2"),
    parameter!(0 1 54, Ground, Sum, "lsp", "", "large-scale precipitation", "kg m-2"),
    parameter!(0 1 60, Ground, Moment, "sd", "", "water equivalent of snow depth", "kg m-2"),
    parameter!(0 1 64, Column, Moment, "tcwv", "atmosphere_mass_content_of_water_vapor", "total column water vapour", "kg m-2"),
    parameter!(0 1 79, Ground, Sum, "eva", "", "evaporation", "kg m-2"),
    parameter!(0 1 83, Pressure, Moment, "clwc", "", "specific cloud liquid water content", "kg kg-1"),
    parameter!(0 1 84, Pressure, Moment, "ciwc", "", "specific cloud ice water content", "kg kg-1"),
    parameter!(0 1 85, Pressure, Moment, "crwc", "", "specific rain water content", "kg kg-1"),
    parameter!(0 1 86, Pressure, Moment, "cswc", "", "specific snow water content", "kg kg-1"),
    parameter!(0 1 193 of ECMWF, Ground, Moment, "tp", "lwe_thickness_of_precipitation_amount", "total precipitation", "m"),
    parameter!(0 1 193 of ECMWF, Ground, Sum, "tp", "lwe_thickness_of_precipitation_amount", "total precipitation", "m"),
    parameter!(0 2 0, Above(10.0), Moment, "10wdir", "", "10 metre wind direction", "degree"),
    parameter!(0 2 1, Above(10.0), Moment, "10si", "", "10 metre wind speed", "m s-1"),
    parameter!(0 2 2, Pressure, Moment, "u", "eastward_wind", "eastward wind", "m s-1"),
    parameter!(0 2 2, Above(10.0), Moment, "10u", "eastward_wind", "10 metre eastward wind", "m s-1"),
    parameter!(0 2 2, Above(100.0), Moment, "100u", "", "100 metre eastward wind", "m s-1"),
    parameter!(0 2 3, Pressure, Moment, "v", "northward_wind", "northward wind", "m s-1"),
    parameter!(0 2 3, Above(10.0), Moment, "10v", "northward_wind", "10 metre northward wind", "m s-1"),
    parameter!(0 2 3, Above(100.0), Moment, "100v", "", "100 metre northward wind", "m s-1"),
    parameter!(0 2 4, Pressure, Moment, "strf", "", "stream function", "m2 s-1"),
    parameter!(0 2 5, Pressure, Moment, "vp", "", "velocity potential", "m2 s-1"),
    parameter!(0 2 8, Pressure, Moment, "w", "lagrangian_tendency_of_air_pressure", "vertical velocity", "Pa s-1"),
    parameter!(0 2 9, Pressure, Moment, "wz", "upward_air_velocity", "geometric vertical velocity", "m s-1"),
    parameter!(0 2 10, Pressure, Moment, "absv", "", "absolute vorticity", "s-1"),
    parameter!(0 2 12, Pressure, Moment, "vo", "atmosphere_relative_vorticity", "relative vorticity", "s-1"),
    parameter!(0 2 13, Pressure, Moment, "d", "divergence_of_wind", "divergence", "s-1"),
    parameter!(0 2 14, Pressure, Moment, "pv", "", "potential vorticity", "K m2 kg-1 s-1"),
    parameter!(0 2 22, Above(10.0), Moment, "i10fg", "", "10 metre wind gust", "m s-1"),
    parameter!(0 2 22, Ground, Moment, "gust", "", "wind gust", "m s-1"),
    parameter!(0 3 0, Ground, Moment, "sp", "surface_air_pressure", "surface pressure", "Pa"),
    parameter!(0 3 0, Sea, Moment, "msl", "air_pressure_at_mean_sea_level", "mean sea level pressure", "Pa"),
    parameter!(0 3 0, Elsewhere, Moment, "pressure", "", "pressure", "Pa"),
    parameter!(0 3 1, Sea, Moment, "prmsl", "air_pressure_at_mean_sea_level", "pressure reduced to mean sea level", "Pa"),
    parameter!(0 3 192 of NCEP, Sea, Moment, "mslet", "", "mean sea level pressure (eta model reduction)", "Pa"),
    parameter!(0 3 4, Pressure, Moment, "z", "geopotential", "geopotential", "m2 s-2"),
    parameter!(0 3 4, Ground, Moment, "z", "geopotential", "geopotential of the surface", "m2 s-2"),
    parameter!(0 3 5, Pressure, Moment, "gh", "geopotential_height", "geopotential height", "gpm"),
    parameter!(0 3 5, Ground, Moment, "orog", "surface_altitude", "orography", "m"),
    parameter!(0 3 6, Ground, Moment, "h", "surface_altitude", "geometric height of the surface", "m"),
    parameter!(0 3 18, Ground, Moment, "blh", "atmosphere_boundary_layer_thickness", "boundary layer height", "m"),
    parameter!(0 4 7, Ground, Sum, "ssrd", "", "surface short-wave radiation downwards", "J m-2"),
    parameter!(0 4 7, Ground, Moment, "sdswrf", "surface_downwelling_shortwave_flux_in_air", "surface downward short-wave radiation flux", "W m-2"),
    parameter!(0 4 8, Ground, Moment, "suswrf", "surface_upwelling_shortwave_flux_in_air", "surface upward short-wave radiation flux", "W m-2"),
    parameter!(0 4 9, Ground, Sum, "ssr", "", "surface net short-wave radiation", "J m-2"),
    parameter!(0 5 3, Ground, Sum, "strd", "", "surface long-wave radiation downwards", "J m-2"),
    parameter!(0 5 3, Ground, Moment, "sdlwrf", "surface_downwelling_longwave_flux_in_air", "surface downward long-wave radiation flux", "W m-2"),
    parameter!(0 5 4, Ground, Moment, "sulwrf", "surface_upwelling_longwave_flux_in_air", "surface upward long-wave radiation flux", "W m-2"),
    parameter!(0 5 5, Ground, Sum, "str", "", "surface net long-wave radiation", "J m-2"),
    parameter!(0 6 1, Column, Moment, "tcc", "", "total cloud cover", "%"),
    parameter!(0 6 192 of ECMWF, Column, Moment, "tcc", "", "total cloud cover", "1"),
    parameter!(0 6 3, Anywhere, Moment, "lcc", "", "low cloud cover", "%"),
    parameter!(0 6 4, Anywhere, Moment, "mcc", "", "medium cloud cover", "%"),
    parameter!(0 6 5, Anywhere, Moment, "hcc", "", "high cloud cover", "%"),
    parameter!(0 6 32, Pressure, Moment, "cc", "", "fraction of cloud cover", "1"),
    parameter!(0 7 6, Column, Moment, "cape", "", "convective available potential energy", "J kg-1"),
    parameter!(0 7 7, Column, Moment, "cin", "", "convective inhibition", "J kg-1"),
    parameter!(0 14 1, Pressure, Moment, "o3", "", "ozone mass mixing ratio", "kg kg-1"),
    parameter!(0 14 192 of NCEP, Pressure, Moment, "o3mr", "", "ozone mixing ratio", "kg kg-1"),
    parameter!(0 19 0, Ground, Moment, "vis", "", "visibility", "m"),
    parameter!(2 0 0, Ground, Moment, "lsm", "land_binary_mask", "land-sea mask", "1"),
    parameter!(2 0 1, Ground, Moment, "fsr", "", "surface roughness", "m"),
    parameter!(2 0 2, Anywhere, Moment, "st", "", "soil temperature", "K"),
    parameter!(2 0 25, Anywhere, Moment, "vsw", "", "volumetric soil moisture", "m3 m-3"),
    parameter!(2 3 18, Anywhere, Moment, "sot", "", "soil temperature", "K"),
    parameter!(10 2 0, Ground, Moment, "ci", "sea_ice_area_fraction", "sea ice area fraction", "1"),
    parameter!(10 3 0, Ground, Moment, "sst", "sea_surface_temperature", "sea surface temperature", "K"),
    // ECMWF's discipline for what had numbers in edition 1 alone.
    parameter!(192 128 34 of ECMWF, Anywhere, Moment, "sst", "sea_surface_temperature", "sea surface temperature", "K"),
    parameter!(192 151 159 of ECMWF, Ground, Moment, "sst", "sea_surface_temperature", "sea surface temperature", "K"),
    parameter!(192 128 39 of ECMWF, Anywhere, Moment, "swvl1", "", "volumetric soil water of layer 1", "m3 m-3"),
    parameter!(192 128 40 of ECMWF, Anywhere, Moment, "swvl2", "", "volumetric soil water of layer 2", "m3 m-3"),
    parameter!(192 128 139 of ECMWF, Anywhere, Moment, "stl1", "", "soil temperature of level 1", "K"),
    parameter!(192 128 170 of ECMWF, Anywhere, Moment, "stl2", "", "soil temperature of level 2", "K"),
    parameter!(192 128 228 of ECMWF, Anywhere, Sum, "tp", "lwe_thickness_of_precipitation_amount", "total precipitation", "m"),
];

/// Whether a number means something else to each centre.
pub fn is_local((discipline, category, number): (u8, u8, u8)) -> bool {
    discipline.max(category).max(number) >= 192
}

/// The row for a parameter at a place, `None` when the table has none.
pub fn find(
    id: (u8, u8, u8),
    centre: u16,
    vertical: Option<Vertical>,
    when: When,
) -> Option<&'static Parameter> {
    PARAMETERS.iter().find(|row| {
        row.id == id
            && row.centre.is_none_or(|c| c == centre)
            && row.when == when
            && match (row.at, vertical) {
                (Anywhere, _) => true,
                (Elsewhere, _) | (_, None) => false,
                (Pressure, Some(v)) => v.is_isobaric(),
                (Ground, Some(v)) => v.is_surface(GROUND),
                (Sea, Some(v)) => v.is_surface(MEAN_SEA),
                (Column, Some(v)) => v.is_column(),
                (Above(metres), Some(v)) => {
                    // Models differ by a little near the ground (1.5 m, 2 m), and nowhere else.
                    let most = if metres > 10.0 { 0.5 } else { 0.25 * metres };
                    v.height().is_some_and(|h| (h - metres).abs() <= most)
                }
            }
    })
}

/// A row for a parameter wherever it lies: its name and unit, where [`find`] has none.
pub fn elsewhere(id: (u8, u8, u8), centre: u16, when: When) -> Option<&'static Parameter> {
    let mut rows = PARAMETERS
        .iter()
        .filter(|row| row.id == id && row.centre.is_none_or(|c| c == centre) && row.when == when);
    let first = rows.clone().next();
    rows.find(|row| row.at == Elsewhere).or(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::grib::vertical::Surface;
    use crate::variable::Variable;

    #[test]
    fn no_row_hides_another_and_local_numbers_name_their_centre() {
        for (n, row) in PARAMETERS.iter().enumerate() {
            let same = |other: &&Parameter| (other.id, other.at, other.when) == (row.id, row.at, row.when);
            assert!(!PARAMETERS[..n].iter().any(|other| same(&other)), "{}", row.name);
            assert_eq!(row.centre.is_some(), is_local(row.id), "{}", row.name);
        }
    }

    #[test]
    fn the_quantities_of_a_forecast_are_found_where_they_belong() {
        let above = |metres| Some(Vertical::Other(Surface { kind: 103, value: Some(metres) }, None));
        let name = |id, vertical, when| find(id, 0, vertical, when).map(|row| row.name);
        assert_eq!(name((0, 0, 0), above(2.0), Moment), Some("2t"));
        assert_eq!(name((0, 0, 0), Some(Vertical::Isobaric(5e4)), Moment), Some("t"));
        assert_eq!(name((0, 0, 0), above(1.5), Moment), Some("2t"));
        assert_eq!(name((0, 0, 0), above(80.0), Moment), None);
        assert_eq!(
            name((0, 1, 52), Some(Vertical::Other(Surface { kind: 1, value: None }, None)), Sum),
            Some("tp")
        );
        for known in
            ["z", "t", "u", "v", "w", "q", "r", "vo", "2t", "2d", "10u", "10v", "sp", "msl", "tcwv", "tp"]
        {
            assert!(
                Variable::find(known).is_some() && PARAMETERS.iter().any(|row| row.name == known),
                "{known}"
            );
        }
    }
}
