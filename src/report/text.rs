//! Letters on pictures: the Inter typeface (data/fonts, SIL Open Font License), embedded.

use std::sync::LazyLock;

use ab_glyph::{Font, FontRef, PxScale, ScaleFont, point};

use crate::report::image::{Colour, Image};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Regular,
    Semibold,
}

/// Which part of the text stands at the given x.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How text looks.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Height of a line in pixels, about 1.2 times the em.
    pub size: f64,
    pub weight: Weight,
    pub colour: Colour,
    pub anchor: Anchor,
    /// A rim of this colour around the letters, to stand out from a map.
    pub halo: Option<Colour>,
}

impl Style {
    pub fn new(size: f64, colour: Colour) -> Self {
        Self { size, weight: Weight::Regular, colour, anchor: Anchor::Start, halo: None }
    }

    #[must_use]
    pub fn bold(self) -> Self {
        Self { weight: Weight::Semibold, ..self }
    }

    #[must_use]
    pub fn anchored(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

static REGULAR: LazyLock<FontRef<'static>> =
    LazyLock::new(|| embedded(include_bytes!("../../data/fonts/inter-regular.otf")));
static SEMIBOLD: LazyLock<FontRef<'static>> =
    LazyLock::new(|| embedded(include_bytes!("../../data/fonts/inter-semibold.otf")));

fn embedded(bytes: &'static [u8]) -> FontRef<'static> {
    FontRef::try_from_slice(bytes).expect("the font inside the program is a valid font")
}

fn font(weight: Weight) -> &'static FontRef<'static> {
    match weight {
        Weight::Regular => &REGULAR,
        Weight::Semibold => &SEMIBOLD,
    }
}

/// Width of a line of text in pixels.
pub fn text_width(text: &str, style: Style) -> f64 {
    let font = font(style.weight).as_scaled(PxScale::from(style.size as f32));
    text.chars().map(|c| f64::from(font.h_advance(font.glyph_id(c)))).sum()
}

/// Cuts a text so that it fits, with an ellipsis where something is missing.
pub fn fit(text: &str, style: Style, width: f64) -> String {
    if text_width(text, style) <= width {
        return text.to_string();
    }
    let mut cut: Vec<char> = text.chars().collect();
    while cut.pop().is_some() {
        let shorter = cut.iter().collect::<String>().trim_end().to_string() + "…";
        if text_width(&shorter, style) <= width {
            return shorter;
        }
    }
    String::new()
}

impl Image {
    /// Writes one line with its baseline at y; returns its width.
    pub fn text(&mut self, x: f64, y: f64, text: &str, style: Style) -> f64 {
        let width = text_width(text, style);
        let start = match style.anchor {
            Anchor::Start => x,
            Anchor::Middle => x - width / 2.0,
            Anchor::End => x - width,
        };
        if let Some(halo) = style.halo {
            let rim = (style.size / 9.0).max(1.0);
            for turn in 0..12 {
                let angle = f64::from(turn) * std::f64::consts::TAU / 12.0;
                self.letters(start + rim * angle.cos(), y + rim * angle.sin(), text, style, halo);
            }
        }
        self.letters(start, y, text, style, style.colour);
        width
    }

    fn letters(&mut self, x: f64, y: f64, text: &str, style: Style, colour: Colour) {
        let scale = PxScale::from(style.size as f32);
        let font = font(style.weight);
        let scaled = font.as_scaled(scale);
        let mut pen = x as f32;
        for letter in text.chars() {
            let id = scaled.glyph_id(letter);
            if let Some(outline) = font.outline_glyph(id.with_scale_and_position(scale, point(pen, y as f32)))
            {
                let bounds = outline.px_bounds();
                let (left, top) = (bounds.min.x as i64, bounds.min.y as i64);
                outline.draw(|dx, dy, covered| {
                    self.blend(left + i64::from(dx), top + i64::from(dy), colour, f64::from(covered));
                });
            }
            pen += scaled.h_advance(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sign_that_reports_use_has_a_letter() {
        for sign in "AZaz09 °·–−²³¹⁻±×µ%()[]/+.,:äéøß…".chars() {
            for weight in [Weight::Regular, Weight::Semibold] {
                assert_ne!(font(weight).glyph_id(sign).0, 0, "no glyph for '{sign}'");
            }
        }
    }

    #[test]
    fn text_leaves_ink_where_its_anchor_says() {
        let style = Style::new(20.0, Colour::INK).anchored(Anchor::End);
        let mut image = Image::new(200, 40, Colour::WHITE);
        image.text(190.0, 25.0, "1013 hPa", style);
        let inked = |x: usize| (0..40).any(|y| image.get(x, y) != Some(Colour::WHITE));
        assert!((150..190).any(inked) && !(0..90).any(inked) && !(191..200).any(inked));
    }

    #[test]
    fn long_text_is_cut_to_its_room() {
        let style = Style::new(16.0, Colour::INK);
        let cut = fit("a very long title that does not fit", style, 80.0);
        assert!(cut.ends_with('…') && text_width(&cut, style) <= 80.0);
        assert_eq!(fit("short", style, 80.0), "short");
        assert_eq!(fit("anything", style, 0.0), "");
    }
}
