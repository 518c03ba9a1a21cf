//! Unsigned numbers of any width, first bit first.

/// Bytes as a row of bits.
#[derive(Clone, Copy)]
pub struct Bits<'a>(pub &'a [u8]);

impl Bits<'_> {
    pub fn count(self) -> u64 {
        self.0.len() as u64 * 8
    }

    /// The number of `width` bits, up to 32, at bit `at`. Bits behind the end are zero.
    #[inline]
    pub fn get(self, at: u64, width: u32) -> u32 {
        if width == 0 {
            return 0;
        }
        let byte = (at / 8) as usize;
        let word = match self.0.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(bytes) => u64::from_be_bytes(*bytes),
            None => {
                let last = |i| self.0.get(byte + i).copied().unwrap_or(0);
                u64::from_be_bytes(std::array::from_fn(last))
            }
        };
        ((word << (at % 8)) >> (64 - width)) as u32
    }
}

/// The next bit that begins a byte.
pub fn to_byte(bit: u64) -> u64 {
    bit.next_multiple_of(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_width_are_those_that_were_written() {
        for width in 1..=32_u32 {
            let values: Vec<u32> =
                (0..50_u32).map(|i| i.wrapping_mul(2_654_435_761).rotate_left(i) >> (32 - width)).collect();
            let mut bytes = vec![0_u8; (50 * width as usize).div_ceil(8)];
            for (n, value) in values.iter().enumerate() {
                for bit in 0..width as usize {
                    let at = n * width as usize + bit;
                    let one = value >> (width as usize - 1 - bit) & 1;
                    bytes[at / 8] |= (one as u8) << (7 - at % 8);
                }
            }
            let bits = Bits(&bytes);
            for (n, value) in values.iter().enumerate() {
                assert_eq!(bits.get(n as u64 * u64::from(width), width), *value, "{width} bits, number {n}");
            }
        }
    }
}
