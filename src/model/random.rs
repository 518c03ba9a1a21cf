//! Random numbers by counting: the n-th number of a stream needs none before it.

/// A stream of random numbers that two whole numbers name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    key: u64,
}

impl Stream {
    pub fn new(seed: u64, stream: u64) -> Self {
        Self { key: mix(mix(seed) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)) }
    }

    /// The `n`-th number, uniform in [0, 1), 53 random bits.
    pub fn uniform(&self, n: u64) -> f64 {
        (mix(self.key.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 11) as f64
            / (1_u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64 (Steele, Lea and Flood 2014, doi:10.1145/2660193.2660195).
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_uniform_and_streams_differ() {
        let n = 20_000;
        let stream = Stream::new(7, 3);
        let mean = (0..n).map(|i| stream.uniform(i)).sum::<f64>() / n as f64;
        let square = (0..n).map(|i| stream.uniform(i).powi(2)).sum::<f64>() / n as f64;
        // Four standard errors: 1/sqrt(12 n) = 0.002 and less for the square.
        assert!((mean - 0.5).abs() < 0.008 && (square - 1.0 / 3.0).abs() < 0.009, "{mean} {square}");
        assert_ne!(stream.uniform(0), Stream::new(7, 4).uniform(0));
        assert_ne!(stream.uniform(0), Stream::new(8, 3).uniform(0));
    }
}
