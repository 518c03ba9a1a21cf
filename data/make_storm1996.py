"""The blizzard of January 1996 as one CF file: data/storm1996.nc from the six sample files of NCAR's graphics library.

Requirements: Python 3.9 or newer with numpy and netCDF4, and the files of the Debian package libncarg-data:

    apt-get install libncarg-data            # into /usr/share/ncarg/data/cdf
    python3 data/make_storm1996.py [FOLDER WITH THE FILES]

Values are copied bit for bit; only what describes them is new. Missing values stay missing: corners of the grid, and
three whole fields.
"""

import hashlib
import pathlib
import sys

import netCDF4
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/usr/share/ncarg/data/cdf")
FILL = np.float32(-9999.0)
HEIGHT = "the source says surface and gives no height above it"

# Name here, source file, variable in it, attributes.
FIELDS = [
    ("t2m", "Tstorm.cdf", "t", {"standard_name": "air_temperature", "long_name": "temperature near the surface",
                                "units": "K", "comment": HEIGHT}),
    ("msl", "Pstorm.cdf", "p", {"standard_name": "air_pressure_at_mean_sea_level",
                                "long_name": "mean sea level pressure", "units": "Pa",
                                "comment": "the source says pressure; over the Rocky Mountains the values are those "
                                           "of sea level"}),
    ("u10", "Ustorm.cdf", "u", {"standard_name": "eastward_wind", "long_name": "eastward wind near the surface",
                                "units": "m s-1", "comment": HEIGHT}),
    ("v10", "Vstorm.cdf", "v", {"standard_name": "northward_wind", "long_name": "northward wind near the surface",
                                "units": "m s-1", "comment": HEIGHT}),
    ("u", "U500storm.cdf", "u", {"standard_name": "eastward_wind", "long_name": "eastward wind at 500 hPa",
                                 "units": "m s-1", "coordinates": "level"}),
    ("v", "V500storm.cdf", "v", {"standard_name": "northward_wind", "long_name": "northward wind at 500 hPa",
                                 "units": "m s-1", "coordinates": "level"}),
]


def read(name, variable):
    with netCDF4.Dataset(FOLDER / name) as source:
        source.set_auto_mask(False)
        reference = source["reftime"][:].tobytes().rstrip(b"\0").decode()
        if reference != "1996 01 05 00:00" or source[variable]._FillValue != FILL:
            raise SystemExit(f"{FOLDER / name}: not the file that this script was written for")
        return source["timestep"][:], source["lat"][:], source["lon"][:], source[variable][:]


def main():
    fields = {name: read(file, variable) for name, file, variable, _ in FIELDS}
    hours, latitude, longitude, _ = fields["t2m"]
    for name, (h, j, i, _) in fields.items():
        if not (np.array_equal(h, hours) and np.array_equal(j, latitude) and np.array_equal(i, longitude)):
            raise SystemExit(f"{name} has other coordinates than t2m")
    with netCDF4.Dataset(HERE / "storm1996.nc", "w", format="NETCDF4") as out:
        out.Conventions = "CF-1.11"
        out.title = "Analyses of the blizzard of January 1996 over North America"
        out.institution = "National Center for Atmospheric Research, Boulder"
        out.source = "sample data of NCAR Graphics and NCL 6.6.2; the analysis that they were cut from is not named"
        out.history = "made by data/make_storm1996.py from the Debian package libncarg-data 6.6.2.dfsg.1-1"
        out.license = "copyright 2013 University Corporation for Atmospheric Research; terms in data/storm1996.LICENSE"
        out.source_sha256 = "; ".join(
            f"{file} {hashlib.sha256((FOLDER / file).read_bytes()).hexdigest()}" for _, file, _, _ in FIELDS
        )
        axes = [
            ("time", hours, {"standard_name": "time", "long_name": "valid time", "axis": "T",
                             "units": "hours since 1996-01-05 00:00:00", "calendar": "standard"}),
            ("latitude", latitude, {"standard_name": "latitude", "units": "degrees_north", "axis": "Y"}),
            ("longitude", longitude, {"standard_name": "longitude", "units": "degrees_east", "axis": "X"}),
        ]
        for name, values, attributes in axes:
            out.createDimension(name, len(values))
            axis = out.createVariable(name, values.dtype, (name,))
            axis.setncatts(attributes)
            axis[:] = values
        level = out.createVariable("level", "f4", ())
        level.setncatts({"standard_name": "air_pressure", "long_name": "pressure", "units": "hPa", "axis": "Z",
                         "positive": "down"})
        level[...] = 500.0
        for name, _, _, attributes in FIELDS:
            field = out.createVariable(name, "f4", ("time", "latitude", "longitude"), zlib=True, complevel=9,
                                       shuffle=True, chunksizes=(1, len(latitude), len(longitude)), fill_value=FILL)
            field.set_auto_mask(False)
            field.setncatts(attributes)
            field[:] = fields[name][3]


main()
