//! A picture in memory and the few ways to paint on it, all anti-aliased.

/// Red, green, blue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Colour(pub [u8; 3]);

impl Colour {
    pub const WHITE: Self = Self([255, 255, 255]);
    pub const INK: Self = Self([0x1b, 0x1f, 0x24]);
    pub const MUTED: Self = Self([0x5c, 0x65, 0x70]);

    /// This colour with `share` (0 to 1) of `other` mixed in.
    pub fn mix(self, other: Colour, share: f64) -> Colour {
        let share = share.clamp(0.0, 1.0);
        let mut out = self.0;
        for (a, b) in out.iter_mut().zip(other.0) {
            *a = (f64::from(*a) + (f64::from(b) - f64::from(*a)) * share).round() as u8;
        }
        Colour(out)
    }

    /// Perceived brightness, 0 to 1 (Rec. 709 weights on the encoded values: enough to choose black or white ink).
    pub fn brightness(self) -> f64 {
        let [r, g, b] = self.0.map(f64::from);
        (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255.0
    }
}

/// A rectangle of pixels; the right and lower edges are outside.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rectangle {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Rectangle {
    pub fn width(&self) -> f64 {
        self.right - self.left
    }

    pub fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub fn overlaps(&self, other: &Rectangle) -> bool {
        self.left < other.right
            && other.left < self.right
            && self.top < other.bottom
            && other.top < self.bottom
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Pen {
    pub colour: Colour,
    /// In pixels.
    pub width: f64,
    /// 0 to 1.
    pub opacity: f64,
}

/// An opaque picture, rows from the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Image {
    pub width: usize,
    pub height: usize,
    /// `[height, width]`
    pub pixels: Vec<Colour>,
}

impl Image {
    pub fn new(width: usize, height: usize, background: Colour) -> Self {
        let (width, height) = (width.max(1), height.max(1));
        Self { width, height, pixels: vec![background; width * height] }
    }

    /// The whole picture.
    pub fn area(&self) -> Rectangle {
        Rectangle { left: 0.0, top: 0.0, right: self.width as f64, bottom: self.height as f64 }
    }

    pub fn get(&self, x: usize, y: usize) -> Option<Colour> {
        (x < self.width).then(|| self.pixels.get(y * self.width + x).copied()).flatten()
    }

    /// Mixes `share` of a colour into one pixel; outside the picture nothing happens.
    pub fn blend(&mut self, x: i64, y: i64, colour: Colour, share: f64) {
        if share <= 0.0 || x < 0 || y < 0 || x >= self.width as i64 || y >= self.height as i64 {
            return;
        }
        let pixel = &mut self.pixels[y as usize * self.width + x as usize];
        *pixel = if share >= 1.0 { colour } else { pixel.mix(colour, share) };
    }

    /// Copies another picture with its upper left corner at (x, y), cut at the edges.
    pub fn paste(&mut self, other: &Image, x: usize, y: usize) {
        for row in 0..other.height.min(self.height.saturating_sub(y)) {
            let columns = other.width.min(self.width.saturating_sub(x));
            let from = row * other.width;
            let to = (y + row) * self.width + x;
            self.pixels[to..to + columns].copy_from_slice(&other.pixels[from..from + columns]);
        }
    }

    /// Pictures side by side and below each other, `columns` in a row.
    pub fn tiled(pictures: &[Image], columns: usize) -> Image {
        let columns = columns.clamp(1, pictures.len().max(1));
        let cell_width = pictures.iter().map(|p| p.width).max().unwrap_or(1);
        let cell_height = pictures.iter().map(|p| p.height).max().unwrap_or(1);
        let rows = pictures.len().div_ceil(columns);
        let mut whole = Image::new(cell_width * columns, cell_height * rows, Colour::WHITE);
        for (i, picture) in pictures.iter().enumerate() {
            whole.paste(picture, i % columns * cell_width, i / columns * cell_height);
        }
        whole
    }

    /// Fills a polygon (even-odd rule), four by four samples per pixel.
    pub fn fill(&mut self, corners: &[(f64, f64)], colour: Colour) {
        const SAMPLES: usize = 4;
        let bound = |pick: fn(&(f64, f64)) -> f64, limit: usize| {
            let low = corners.iter().map(pick).fold(f64::INFINITY, f64::min).floor().max(0.0);
            let high = corners.iter().map(pick).fold(0.0, f64::max).ceil().min(limit as f64);
            (low as usize, high.max(0.0) as usize)
        };
        let (left, right) = bound(|c| c.0, self.width);
        let (top, bottom) = bound(|c| c.1, self.height);
        for y in top..bottom {
            for x in left..right {
                let mut hits = 0;
                for sample in 0..SAMPLES * SAMPLES {
                    let px = x as f64 + (sample % SAMPLES) as f64 / SAMPLES as f64 + 0.125;
                    let py = y as f64 + (sample / SAMPLES) as f64 / SAMPLES as f64 + 0.125;
                    hits += usize::from(inside(corners, px, py));
                }
                self.blend(x as i64, y as i64, colour, hits as f64 / (SAMPLES * SAMPLES) as f64);
            }
        }
    }

    pub fn fill_rectangle(&mut self, r: Rectangle, colour: Colour) {
        self.fill(&[(r.left, r.top), (r.right, r.top), (r.right, r.bottom), (r.left, r.bottom)], colour);
    }

    /// Draws lines, cut at `clip`. Where lines of one call meet or cross they count once, so that
    /// a half-transparent coastline has no dark joints.
    pub fn stroke<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a [(f64, f64)]>,
        pen: Pen,
        clip: Rectangle,
    ) {
        let left = clip.left.max(0.0).floor() as i64;
        let top = clip.top.max(0.0).floor() as i64;
        let right = (clip.right.min(self.width as f64)).ceil() as i64;
        let bottom = (clip.bottom.min(self.height as f64)).ceil() as i64;
        if right <= left || bottom <= top {
            return;
        }
        let columns = (right - left) as usize;
        let mut mask = vec![0.0_f32; columns * (bottom - top) as usize];
        let reach = pen.width / 2.0 + 0.5;
        for line in lines {
            for ends in line.windows(2) {
                let ((ax, ay), (bx, by)) = (ends[0], ends[1]);
                if ![ax, ay, bx, by].iter().all(|v| v.is_finite()) {
                    continue;
                }
                let x0 = ((ax.min(bx) - reach).floor().max(left as f64)) as i64;
                let x1 = ((ax.max(bx) + reach).ceil().min(right as f64)) as i64;
                let y0 = ((ay.min(by) - reach).floor().max(top as f64)) as i64;
                let y1 = ((ay.max(by) + reach).ceil().min(bottom as f64)) as i64;
                for y in y0..y1 {
                    for x in x0..x1 {
                        let distance =
                            distance_to_segment((x as f64 + 0.5, y as f64 + 0.5), (ax, ay), (bx, by));
                        let covered = (reach - distance).clamp(0.0, 1.0).min(pen.width) as f32;
                        let cell = &mut mask[(y - top) as usize * columns + (x - left) as usize];
                        *cell = cell.max(covered);
                    }
                }
            }
        }
        for (i, covered) in mask.into_iter().enumerate() {
            let (x, y) = (left + (i % columns) as i64, top + (i / columns) as i64);
            self.blend(x, y, pen.colour, f64::from(covered) * pen.opacity);
        }
    }

    /// Draws the outline of a rectangle, inside its edges' pixel columns and rows.
    pub fn frame(&mut self, r: Rectangle, pen: Pen) {
        let corners =
            [(r.left, r.top), (r.right, r.top), (r.right, r.bottom), (r.left, r.bottom), (r.left, r.top)];
        self.stroke([corners.as_slice()], pen, self.area());
    }
}

fn inside(corners: &[(f64, f64)], x: f64, y: f64) -> bool {
    let mut inside = false;
    for (i, &(bx, by)) in corners.iter().enumerate() {
        let (ax, ay) = corners[(i + corners.len() - 1) % corners.len()];
        if (ay > y) != (by > y) && x < ax + (bx - ax) * (y - ay) / (by - ay) {
            inside = !inside;
        }
    }
    inside
}

fn distance_to_segment(p: (f64, f64), a: (f64, f64), b: (f64, f64)) -> f64 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let length2 = dx * dx + dy * dy;
    let along =
        if length2 > 0.0 { (((p.0 - a.0) * dx + (p.1 - a.1) * dy) / length2).clamp(0.0, 1.0) } else { 0.0 };
    (p.0 - a.0 - along * dx).hypot(p.1 - a.1 - along * dy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_covers_its_width_and_nothing_else() {
        let mut image = Image::new(20, 20, Colour::WHITE);
        let pen = Pen { colour: Colour([0, 0, 0]), width: 2.0, opacity: 1.0 };
        let area = image.area();
        image.stroke([[(0.0, 10.0), (20.0, 10.0)].as_slice()], pen, area);
        assert_eq!(image.get(7, 9), Some(Colour([0, 0, 0])));
        assert_eq!(image.get(7, 10), Some(Colour([0, 0, 0])));
        assert_eq!(image.get(7, 8), Some(Colour::WHITE));
    }

    #[test]
    fn painting_outside_the_picture_does_nothing() {
        let mut image = Image::new(4, 4, Colour::WHITE);
        image.fill_rectangle(Rectangle { left: -9.0, top: -9.0, right: -1.0, bottom: 99.0 }, Colour::INK);
        let pen = Pen { colour: Colour::INK, width: 1.0, opacity: 1.0 };
        let clip = Rectangle { left: -50.0, top: 2.0, right: 90.0, bottom: 1.0 };
        image.stroke([[(f64::NAN, 0.0), (1e9, 1e9)].as_slice()], pen, clip);
        image.paste(&Image::new(9, 9, Colour::WHITE), 3, 7);
        assert!(image.pixels.iter().all(|p| *p == Colour::WHITE));
    }

    #[test]
    fn a_filled_triangle_has_half_the_area_of_its_square() {
        let mut image = Image::new(10, 10, Colour::WHITE);
        image.fill(&[(0.0, 0.0), (10.0, 0.0), (0.0, 10.0)], Colour([0, 0, 0]));
        let dark: f64 = image.pixels.iter().map(|p| 1.0 - p.brightness()).sum();
        assert!((dark - 50.0).abs() < 2.0, "{dark}"); // sampling error along 10 diagonal pixels
    }
}
