"""GRIB2 files of every packing that is read, and their values as ecCodes reads them: python make_grib.py FOLDER

Each file has two messages: temperature on 850 hPa, whole, and on 500 hPa with a bitmap. `values.f32` has the values of
both, file after file in the order of PACKINGS, as little-endian float32 in the order of the file, NaN where there is none.
"""
import sys
import eccodes
import numpy as np

COLUMNS, ROWS, MISSING = 25, 19, 1e20
# Name of the file, packing type, bits, and further keys.
PACKINGS = [
    ("simple", "grid_simple", 12, {}),
    ("simple-constant", "grid_simple", 0, {}),
    ("ieee32", "grid_ieee", None, {"precision": 1}),
    ("ieee64", "grid_ieee", None, {"precision": 2}),
    ("complex", "grid_complex", 16, {}),
    ("spatial-1", "grid_complex_spatial_differencing", 16, {"orderOfSpatialDifferencing": 1}),
    ("spatial-2", "grid_complex_spatial_differencing", 16, {"orderOfSpatialDifferencing": 2}),
    ("png-8", "grid_png", 8, {}),
    ("png-16", "grid_png", 16, {}),
    ("png-24", "grid_png", 24, {}),
    ("jpeg-12", "grid_jpeg", 12, {}),
    ("jpeg-20", "grid_jpeg", 20, {}),
    ("ccsds-12", "grid_ccsds", 12, {}),
    ("ccsds-24", "grid_ccsds", 24, {}),
    ("ccsds-30", "grid_ccsds", 30, {}),
]


def field(level, kind):
    rows, columns = np.mgrid[0:ROWS, 0:COLUMNS]
    noise = np.random.default_rng(level).normal(size=(ROWS, COLUMNS))
    values = 250 + level / 40 + 20 * np.cos(rows / 5) + 3 * np.sin(columns / 2) + noise
    if kind == "constant":
        values[:] = 273.125
    if kind == "steps":
        # The encoder of PNG fails on what it cannot make smaller.
        values = 250 + level / 40 + (rows + columns // 5) % 7 * 3.7
    if level == 500:
        values[2:5, 3:9] = MISSING
        values[-1, -1] = MISSING
    return values.ravel()


def message(level, packing, bits, keys):
    handle = eccodes.codes_grib_new_from_samples("regular_ll_pl_grib2")
    settings = {
        "Ni": COLUMNS, "Nj": ROWS, "iDirectionIncrementInDegrees": 5, "jDirectionIncrementInDegrees": 5,
        "latitudeOfFirstGridPointInDegrees": 75, "latitudeOfLastGridPointInDegrees": -15,
        "longitudeOfFirstGridPointInDegrees": 350, "longitudeOfLastGridPointInDegrees": 110,
        "dataDate": 20200229, "dataTime": 1200, "shortName": "t", "level": level,
        "bitmapPresent": int(level == 500), "missingValue": MISSING,
    }
    for key, value in settings.items():
        eccodes.codes_set(handle, key, value)
    kind = "constant" if bits == 0 else "steps" if packing == "grid_png" else "weather"
    eccodes.codes_set_values(handle, field(level, kind))
    # PNG takes whole bytes alone, from the first on.
    if bits:
        eccodes.codes_set(handle, "bitsPerValue", bits)
        eccodes.codes_set_values(handle, field(level, kind))
    eccodes.codes_set(handle, "packingType", packing)
    for key, value in keys.items():
        eccodes.codes_set(handle, key, value)
    if bits:
        eccodes.codes_set(handle, "bitsPerValue", bits)
    eccodes.codes_set_values(handle, field(level, kind))
    data = eccodes.codes_get_message(handle)
    eccodes.codes_release(handle)
    # Read as anybody would who gets the file.
    handle = eccodes.codes_new_from_message(data)
    eccodes.codes_set(handle, "missingValue", MISSING)
    assert eccodes.codes_get(handle, "packingType") == packing, (packing, eccodes.codes_get(handle, "packingType"))
    values = eccodes.codes_get_values(handle)
    values = np.where(values == MISSING, np.nan, values).astype("<f4")
    eccodes.codes_release(handle)
    return data, values


folder, table = sys.argv[1], []
for name, packing, bits, keys in PACKINGS:
    with open(f"{folder}/{name}.grib2", "wb") as out:
        for level in (850, 500):
            data, values = message(level, packing, bits, keys)
            out.write(data)
            table.append(values)
np.concatenate(table).tofile(f"{folder}/values.f32")
