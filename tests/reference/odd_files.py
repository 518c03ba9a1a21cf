"""Values for the table of tests/odd_files.rs, read by netCDF4-python: python odd_files.py DATA_FOLDER

For one point of each field: the file, the variable, the number of times and the last date, the level in hPa, latitude,
longitude in [0, 360) (or negative for a region across Greenwich), and the value in the file's units.
"""
import sys
import netCDF4
import numpy as np

FIELDS = [
    ("era-interim-europe/mslp_ei.nc", "msl"), ("era-interim-europe/t850_ei.nc", "t"),
    ("era-interim-europe/z500_ei.nc", "z"), ("era-interim-europe-2.5deg/mslp_ei.nc", "msl"),
    ("era5-global-1deg/era5_global_1deg_8steps.nc", "t2m"), ("era5-global-1deg/era5_global_1deg_8steps.nc", "tp"),
    ("era5-tl31/era5_tl31_19590102T00.nc", "temperature"), ("era5-tl31/era5_tl31_19590102T00.nc", "geopotential"),
    ("era5-tl31/era5_tl31_19590102T00.nc", "sea_surface_temperature"),
    ("ncep-air-6h/ncep_air_sig995_6h_2013-2014.nc", "air"),
    ("odd/era5_10m_v_component_of_wind_2010-1.nc", "v10"), ("odd/era5_eastward_component_of_wind_2020-1.nc", "u10"),
    ("odd/era5_northward_component_of_wind_2020-1.nc", "v10"), ("odd/era5_total_precipitation_2020-1.nc", "mtpr"),
    ("odd/era5-land_air_temperature_2020-1.nc", "t2m"),
    ("odd/era_interim_tibet.nc", "t2m"), ("odd/landsea.nc", "LSMASK"), ("odd/met-ecmwf-sl.nc", "sp"),
    ("odd/not_bad_control_test6.nc", "t"), ("odd/not_bad_control_test6.nc", "u"),
    ("odd/orog_mod1_rectilinear_grid_2D.nc", "orog"), ("odd/sftlf_mod1_rectilinear_grid_2D.nc", "sftlf"),
    ("odd/sub.nc", "u"), ("odd/tas_Amon_CanESM2_rcp85_r1i1p1_200701-200712.nc", "tas"),
    ("odd/tasmax_day_HadGEM2-CC_rcp85_r1i1p1_na10kgrid_qm-moving-50bins-detrend_2095.nc", "tasmax"),
    ("odd/test4.nc", "z"), ("odd/test_monotonic_coordinate.nc", "wind1"),
    ("odd/test_monotonic_coordinate.nc", "wind2"), ("odd/vlstr_type.nc", "wind"), ("odd/ps.wrap.test.0E.nc", "ps"),
]

for name, variable in FIELDS:
    with netCDF4.Dataset(f"{sys.argv[1]}/{name}") as file:
        field = file[variable]
        index, place, level, times, last = [], {}, None, 0, "-"
        for dimension in field.dimensions:
            lower = dimension.lower()
            n = len(file.dimensions[dimension])
            kind = next((k for k in ("lat", "lon", "time", "level") if k in lower), None)
            at = {"lat": n // 3, "lon": (3 * n) // 4, "time": n - 1, "level": n - 1, None: 0}[kind]
            index.append(at)
            if kind in ("lat", "lon"):
                place[kind] = float(str(file[dimension][at]))
            elif kind == "time" and dimension in file.variables:
                clock = file[dimension]
                moments = netCDF4.num2date(clock[:], clock.units, getattr(clock, "calendar", "standard"))
                times, last = n, moments[-1] if n and not np.ma.is_masked(moments[-1]) else "masked"
            elif kind == "level":
                level = float(file[dimension][at])
        value = field[tuple(index)]
        text = "missing" if np.ma.is_masked(value) or np.isnan(value) else repr(float(value))
        print(f"{name} {variable} shape {field.shape} times {times} last {last} level {level} at {place} value {text}")
