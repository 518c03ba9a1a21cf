//! What is known of the published cases: figures to hold a run against.
//!
//! Norms were measured by an independent program of the same scheme in double precision (Runge-Kutta, no damping); point
//! values are those of a spectral model of truncation 127 (the jet: 170), which are right to the last digit here.

/// l1, l2 and linf of the depth on a grid of `rows` x `2 rows` after `day` days.
pub struct KnownNorms {
    pub rows: usize,
    /// Tilt of the axis [degrees].
    pub angle: f64,
    pub day: f64,
    pub norms: [Option<f64>; 3],
}

/// Heights of the surface [m] at the case's places.
pub struct KnownHeights {
    pub day: f64,
    pub heights: &'static [f64],
}

const fn norms(rows: usize, angle: f64, day: f64, [l1, l2, linf]: [f64; 3]) -> KnownNorms {
    KnownNorms { rows, angle, day, norms: [Some(l1), Some(l2), Some(linf)] }
}

/// Cubic semi-Lagrangian, steps of 3600 s at 64 rows and 1800 s at 128.
pub const WILLIAMSON_1: [KnownNorms; 6] = [
    norms(64, 0.0, 12.0, [0.249, 0.170, 0.130]),
    norms(64, 45.0, 12.0, [0.286, 0.177, 0.174]),
    norms(64, 90.0, 12.0, [0.275, 0.168, 0.127]),
    norms(128, 0.0, 12.0, [0.0566, 0.0390, 0.0319]),
    norms(128, 45.0, 12.0, [0.0624, 0.0379, 0.0226]),
    norms(128, 90.0, 12.0, [0.0611, 0.0385, 0.0323]),
];

pub const WILLIAMSON_2: [KnownNorms; 9] = [
    norms(32, 0.0, 5.0, [2.25e-4, 2.95e-4, 7.99e-4]),
    norms(32, 45.0, 5.0, [1.46e-3, 2.33e-3, 8.88e-3]),
    norms(32, 90.0, 5.0, [1.71e-3, 2.07e-3, 4.25e-3]),
    norms(64, 0.0, 5.0, [5.84e-5, 7.72e-5, 2.20e-4]),
    norms(64, 45.0, 5.0, [3.73e-4, 5.93e-4, 2.19e-3]),
    norms(64, 90.0, 5.0, [4.34e-4, 5.22e-4, 1.05e-3]),
    norms(128, 0.0, 5.0, [1.48e-5, 1.91e-5, 5.18e-5]),
    norms(128, 45.0, 5.0, [9.41e-5, 1.48e-4, 5.37e-4]),
    norms(128, 90.0, 5.0, [1.09e-4, 1.31e-4, 5.23e-4]),
];

/// (longitude, latitude) [degrees]
pub const WILLIAMSON_5_PLACES: [(f64, f64); 10] = [
    (0.0, 0.0),
    (90.0, 30.0),
    (180.0, 30.0),
    (270.0, 30.0),
    (300.0, 40.0),
    (330.0, 50.0),
    (0.0, -45.0),
    (270.0, 60.0),
    (240.0, 45.0),
    (0.0, 80.0),
];
pub const WILLIAMSON_5: [KnownHeights; 3] = [
    KnownHeights {
        day: 5.0,
        heights: &[5931.8, 5720.5, 5742.3, 5785.7, 5375.6, 5463.2, 5461.9, 5192.8, 5545.1, 5031.2],
    },
    KnownHeights {
        day: 10.0,
        heights: &[5912.8, 5792.7, 5738.9, 5727.6, 5246.1, 5502.2, 5615.6, 5134.5, 5478.6, 5105.5],
    },
    KnownHeights {
        day: 15.0,
        heights: &[5904.6, 5660.5, 5622.1, 5711.8, 5278.5, 5637.6, 5667.9, 5262.5, 5466.6, 5226.9],
    },
];

pub const WILLIAMSON_6_PLACES: [(f64, f64); 9] = [
    (0.0, 0.0),
    (45.0, 0.0),
    (0.0, 30.0),
    (22.5, 30.0),
    (45.0, 45.0),
    (67.5, -30.0),
    (90.0, 60.0),
    (180.0, -60.0),
    (0.0, 89.0),
];
pub const WILLIAMSON_6: [KnownHeights; 4] = [
    KnownHeights {
        day: 1.0,
        heights: &[10566.1, 10321.4, 10113.4, 10113.6, 8679.4, 9082.9, 8778.9, 8778.9, 8000.2],
    },
    KnownHeights {
        day: 5.0,
        heights: &[10309.0, 10519.2, 8958.3, 8913.4, 9544.2, 10078.5, 8583.0, 8583.0, 8163.3],
    },
    KnownHeights {
        day: 10.0,
        heights: &[10464.9, 10460.9, 9530.1, 10242.2, 9106.4, 8675.7, 8749.8, 8749.8, 8219.3],
    },
    KnownHeights {
        day: 14.0,
        heights: &[10467.1, 10468.7, 9636.3, 8707.8, 9056.7, 10238.7, 8753.0, 8753.0, 8156.6],
    },
];

pub const GALEWSKY_PLACES: [(f64, f64); 10] = [
    (0.0, 45.0),
    (60.0, 45.0),
    (90.0, 45.0),
    (120.0, 45.0),
    (150.0, 40.0),
    (180.0, 50.0),
    (210.0, 45.0),
    (240.0, 45.0),
    (270.0, 50.0),
    (300.0, 40.0),
];
pub const GALEWSKY: [KnownHeights; 2] = [
    KnownHeights {
        day: 4.0,
        heights: &[9647.1, 9646.2, 9648.8, 9603.5, 10062.5, 9205.2, 9701.9, 9653.2, 9192.0, 10067.6],
    },
    KnownHeights {
        day: 6.0,
        heights: &[9586.3, 9415.7, 9866.0, 9445.3, 9990.7, 8965.6, 9572.1, 9328.8, 9827.8, 9992.1],
    },
];

/// Of the stream function; only l2 was noted.
pub const ROSSBY_HAURWITZ: [KnownNorms; 3] = [wave(32, 5.0e-2), wave(64, 1.24e-2), wave(128, 3.07e-3)];

const fn wave(rows: usize, l2: f64) -> KnownNorms {
    KnownNorms { rows, angle: 0.0, day: 5.0, norms: [None, Some(l2), None] }
}
