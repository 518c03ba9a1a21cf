"""Reads a file of `wxsim bench io --keep FOLDER` into normalised batches with netCDF4-python.

    wxsim bench io --keep FOLDER --json
    python tests/bench/netcdf4_python.py FOLDER/*-float32.nc FOLDER/*-int16.nc

Prints MB/s of decoded float32, the median of some rounds. Run both in turn: other work of the machine slows both.
"""

import statistics
import sys
import time

import netCDF4
import numpy as np

BATCH = 32
MEAN, DEVIATION = np.float32(280.0), np.float32(12.0)
ROUNDS = 3


def one_pass(path):
    with netCDF4.Dataset(path) as file:
        variable = file["t2m"]
        # Its fastest way: no masked arrays.
        variable.set_auto_mask(False)
        steps = variable.shape[0]
        for first in range(0, steps, BATCH):
            batch = variable[first:first + BATCH].astype(np.float32, copy=False)
            batch -= MEAN
            batch /= DEVIATION
        return 4e-6 * np.prod(variable.shape)


for path in sys.argv[1:]:
    rates = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        megabytes = one_pass(path)
        rates.append(megabytes / (time.perf_counter() - start))
    print(f"{path} {statistics.median(rates):.0f} MB/s")
