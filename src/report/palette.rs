//! Colours that stand for values: Fabio Crameri's scientific colour maps, even to the eye and safe for
//! colour-blind readers (MIT licence, version 8, doi:10.5281/zenodo.1243862), at 33 points each.

use crate::report::image::Colour;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Palette {
    /// Any quantity without a natural middle (batlow).
    Sequential,
    /// Differences and winds: white is zero, blue negative, red positive (vik).
    Diverging,
    /// Rain: white is none (oslo, reversed).
    Rain,
}

#[rustfmt::skip]
const BATLOW: [u32; 33] = [
    0x011959, 0x08255b, 0x0d315d, 0x0f3b5f, 0x114360, 0x134b61, 0x165262, 0x1b5962, 0x226061, 0x2a655e, 0x356a59,
    0x406f54, 0x4d734d, 0x597646, 0x667a3f, 0x737e38, 0x818232, 0x90862d, 0xa08a2b, 0xb08d2e, 0xbf9035, 0xce923f,
    0xdb954c, 0xe8985b, 0xf29d6c, 0xf8a27e, 0xfca891, 0xfdaea3, 0xfdb4b4, 0xfdbac5, 0xfcc0d6, 0xfbc6e8, 0xfaccfa,
];
#[rustfmt::skip]
const VIK: [u32; 33] = [
    0x001261, 0x021f69, 0x022b71, 0x023779, 0x034481, 0x045089, 0x0c5e92, 0x1b6d9b, 0x2f7ca6, 0x478db1, 0x609dbc,
    0x79adc7, 0x92bdd2, 0xacccdc, 0xc5dbe5, 0xdce5e9, 0xece5e1, 0xeedacf, 0xe9cbb9, 0xe2bba4, 0xdcab8f, 0xd59c7b,
    0xcf8e68, 0xc97f55, 0xc37243, 0xbc6331, 0xb3531f, 0xa5400e, 0x932e06, 0x832106, 0x741506, 0x660a07, 0x590008,
];
#[rustfmt::skip]
const OSLO: [u32; 33] = [
    0x010101, 0x050a10, 0x0a121a, 0x0d1824, 0x0e1e2e, 0x0f2439, 0x112a44, 0x13314f, 0x15395b, 0x184067, 0x1c4773,
    0x214f7f, 0x26568c, 0x2d5e99, 0x3667a5, 0x4270b1, 0x4f7abc, 0x5c83c3, 0x678bc7, 0x7292c9, 0x7c99ca, 0x859fca,
    0x8fa4c9, 0x98aac9, 0xa2b0ca, 0xacb7cb, 0xb7bfcd, 0xc2c7d1, 0xced1d7, 0xdadcdf, 0xe6e7e9, 0xf3f3f4, 0xffffff,
];

impl Palette {
    /// The colour at `share` of the way from the lowest value to the highest.
    pub fn colour(self, share: f64) -> Colour {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        let (table, share) = match self {
            Self::Sequential => (&BATLOW, share),
            Self::Diverging => (&VIK, share),
            Self::Rain => (&OSLO, 1.0 - share),
        };
        let place = share * (table.len() - 1) as f64;
        let below = place.floor() as usize;
        let above = (below + 1).min(table.len() - 1);
        unpack(table[below]).mix(unpack(table[above]), place - below as f64)
    }
}

fn unpack(rgb: u32) -> Colour {
    Colour([(rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_palettes_change_brightness_in_one_direction() {
        for (palette, sign) in [(Palette::Sequential, 1.0), (Palette::Rain, -1.0)] {
            for i in 0..64 {
                let step = palette.colour(f64::from(i + 1) / 64.0).brightness()
                    - palette.colour(f64::from(i) / 64.0).brightness();
                // batlow is even in CIELAB lightness, not in this simple brightness: allow for rounding and hue
                assert!(step * sign > -0.01, "{palette:?} at {i}");
            }
        }
    }

    #[test]
    fn zero_is_the_brightest_colour_of_the_diverging_palette() {
        let middle = Palette::Diverging.colour(0.5).brightness();
        assert!(
            (0..=64).all(|i| Palette::Diverging.colour(f64::from(i) / 64.0).brightness() <= middle + 1e-9)
        );
        assert_eq!(Palette::Diverging.colour(f64::NAN), Palette::Diverging.colour(0.5));
    }
}
