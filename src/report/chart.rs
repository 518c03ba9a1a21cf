//! Line charts as inline SVG. Colours come from the page's style sheet (classes s0 to s7 and truth), so that they
//! follow its light and dark dress; shapes and dashes tell the lines apart without colour.

use std::fmt::Write as _;

use crate::report::html::escape;
use crate::report::scale::{nice_step, tick_label, ticks};

const WIDTH: f64 = 440.0;
const HEIGHT: f64 = 290.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = 42.0;

/// A value with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub interval: Option<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub name: String,
    /// Class and shape: 0 is the model, `None` the truth.
    pub style: Option<usize>,
    /// In the order of x. Points that are not finite interrupt the line.
    pub points: Vec<Point>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub label: String,
    pub low: f64,
    pub high: f64,
    pub ticks: Vec<(f64, String)>,
    pub logarithmic: bool,
    /// Runs from high to low.
    pub reversed: bool,
}

/// A chart of some lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// A value of y that divides better from worse.
    pub reference: Option<f64>,
}

impl Axis {
    /// Round ticks, a range that holds all values and `also`.
    pub fn linear(label: &str, values: impl Iterator<Item = f64>, also: &[f64]) -> Self {
        let (low, high) = span(values.chain(also.iter().copied()));
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, high + 0.5) };
        let step = nice_step(high - low, 6.0, &[1.0, 2.0, 5.0]);
        let (low, high) = ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step);
        let ticks = ticks(low, high, 6.0).into_iter().map(|v| (v, tick_label(v, step))).collect();
        Self { label: label.into(), low, high, ticks, logarithmic: false, reversed: false }
    }

    /// Powers of ten and the range of the values.
    pub fn logarithmic(label: &str, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = span(values.filter(|v| *v > 0.0));
        let (low, high) = if low > 0.0 { (low, high.max(low * 1.01)) } else { (1.0, 10.0) };
        let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
        let every = ((decades.end() - decades.start()) / 7).max(1) as usize;
        let mut ticks: Vec<(f64, String)> = decades
            .step_by(every)
            .map(|n| (10_f64.powi(n), power_label(n)))
            .filter(|(v, _)| (low * 0.999..=high * 1.001).contains(v))
            .collect();
        if ticks.len() < 2 {
            let between = [1.0, 2.0, 5.0].map(|m| m * 10_f64.powf(low.log10().floor()));
            let more = between.into_iter().chain(between.map(|v| v * 10.0));
            ticks = more.filter(|v| (low..=high).contains(v)).map(|v| (v, short(v))).collect();
        }
        Self { label: label.into(), low, high, ticks, logarithmic: true, reversed: false }
    }

    /// Lead times, in hours or days.
    pub fn leads(hours: impl Iterator<Item = f64>) -> Self {
        let (_, high) = span(hours);
        let high = if high > 0.0 { high } else { 24.0 };
        let days = high >= 48.0;
        let unit = if days { 24.0 } else { 1.0 };
        let steps: &[f64] = if days { &[1.0, 2.0, 5.0] } else { &[1.0, 3.0, 6.0, 12.0] };
        let step = if days { nice_step(high / unit, 8.0, steps).max(1.0) } else { hour_step(high, steps) };
        let ticks = (0..=(high / unit / step + 1e-9) as usize)
            .map(|i| (i as f64 * step * unit, tick_label(i as f64 * step, step)))
            .collect();
        let label = if days { "lead time (days)" } else { "lead time (hours)" };
        Self { label: label.into(), low: 0.0, high, ticks, logarithmic: false, reversed: false }
    }

    /// 0 at the low end, 1 at the high end.
    fn share(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if self.reversed { 1.0 - share } else { share }
    }
}

fn hour_step(high: f64, steps: &[f64]) -> f64 {
    steps.iter().copied().find(|s| high / s <= 8.0).unwrap_or(12.0)
}

fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values
        .filter(|v| v.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low <= high { (low, high) } else { (0.0, 1.0) }
}

fn power_label(n: i32) -> String {
    match n {
        0..=4 => short(10_f64.powi(n)),
        -2..=-1 => short(10_f64.powi(n)),
        _ => {
            let digits = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
            let raised: String =
                n.unsigned_abs().to_string().bytes().map(|b| digits[usize::from(b - b'0')]).collect();
            format!("10{}{raised}", if n < 0 { "⁻" } else { "" })
        }
    }
}

fn short(value: f64) -> String {
    let text = value.to_string();
    match text.split_once('.') {
        Some(_) => text,
        None if text.len() > 4 => {
            // thin groups of three: 20 000
            let groups: Vec<&str> = text
                .as_bytes()
                .rchunks(3)
                .rev()
                .map(|g| std::str::from_utf8(g).unwrap_or_default())
                .collect();
            groups.join("\u{2009}")
        }
        None => text,
    }
}

impl Chart {
    /// The chart as an `<svg>` element. Its lines are named in a legend of the page, its points in tooltips.
    pub fn svg(&self) -> String {
        let x = |v: f64| LEFT + self.x.share(v) * (WIDTH - LEFT - RIGHT);
        let y = |v: f64| HEIGHT - BOTTOM - self.y.share(v).clamp(-0.02, 1.02) * (HEIGHT - TOP - BOTTOM);
        let title = escape(&self.title);
        // Writing to a String cannot fail.
        let mut svg = format!(
            "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\
             <text class=\"title\" x=\"{LEFT}\" y=\"16\">{title}</text>"
        );
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        for (value, label) in &self.y.ticks {
            let at = y(*value);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"tick end\" x=\"{}\" y=\"{:.1}\">{}</text>",
                LEFT - 7.0,
                at + 4.0,
                escape(label)
            );
        }
        for (value, label) in &self.x.ticks {
            let at = x(*value);
            let _ = write!(
                svg,
                "<path class=\"axis\" d=\"M{at:.1} {bottom}v4\"/><text class=\"tick middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
                bottom + 17.0,
                escape(label)
            );
        }
        let _ = write!(
            svg,
            "<path class=\"axis\" d=\"M{LEFT} {bottom}H{right}\"/><text class=\"tick middle\" x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"tick middle\" transform=\"translate(13 {}) rotate(-90)\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 7.0,
            escape(&self.x.label),
            (TOP + bottom) / 2.0,
            escape(&self.y.label)
        );
        if let Some(reference) = self.reference {
            let _ = write!(svg, "<path class=\"reference\" d=\"M{LEFT} {:.1}H{right}\"/>", y(reference));
        }
        for series in &self.series {
            interval_band(&mut svg, series, &x, &y);
        }
        // the model is drawn last, above the others
        for series in self.series.iter().rev() {
            line(&mut svg, series, &x, &y);
        }
        svg.push_str("</svg>");
        svg
    }
}

/// The class of a line's colour.
pub fn class(style: Option<usize>) -> String {
    style.map_or("truth".into(), |n| format!("s{}", n % 8))
}

fn interval_band(svg: &mut String, series: &Series, x: &impl Fn(f64) -> f64, y: &impl Fn(f64) -> f64) {
    let ends: Vec<(f64, f64, f64)> = series
        .points
        .iter()
        .filter_map(|p| p.interval.map(|(low, high)| (p.x, low, high)))
        .filter(|(_, low, high)| low.is_finite() && high.is_finite())
        .collect();
    if ends.len() < 2 {
        return;
    }
    let upper = ends.iter().map(|(at, _, high)| format!("{:.1},{:.1}", x(*at), y(*high)));
    let lower = ends.iter().rev().map(|(at, low, _)| format!("{:.1},{:.1}", x(*at), y(*low)));
    let corners: Vec<String> = upper.chain(lower).collect();
    let _ = write!(svg, "<polygon class=\"band {}\" points=\"{}\"/>", class(series.style), corners.join(" "));
}

fn line(svg: &mut String, series: &Series, x: &impl Fn(f64) -> f64, y: &impl Fn(f64) -> f64) {
    let class = class(series.style);
    let mut path = String::new();
    let mut down = false;
    for point in &series.points {
        if point.x.is_finite() && point.y.is_finite() {
            let _ = write!(path, "{}{:.1} {:.1}", if down { 'L' } else { 'M' }, x(point.x), y(point.y));
            down = true;
        } else {
            down = false;
        }
    }
    let _ = write!(svg, "<path class=\"line {class}\" d=\"{path}\"/>");
    if series.points.len() > 40 {
        return;
    }
    for point in series.points.iter().filter(|p| p.x.is_finite() && p.y.is_finite()) {
        let (px, py) = (x(point.x), y(point.y));
        let interval = point
            .interval
            .map_or(String::new(), |(low, high)| format!(", 95 % {} to {}", figure(low), figure(high)));
        let _ = write!(
            svg,
            "<g class=\"mark {class}\"><title>{}: {}{interval}</title>{}</g>",
            escape(&series.name),
            figure(point.y),
            mark(series.style, px, py)
        );
    }
}

/// The shape of a line's points.
pub fn mark(style: Option<usize>, x: f64, y: f64) -> String {
    match style.map(|n| n % 4) {
        Some(0) => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.4\"/>"),
        Some(1) => format!("<rect x=\"{:.1}\" y=\"{:.1}\" width=\"5.6\" height=\"5.6\"/>", x - 2.8, y - 2.8),
        Some(2) => format!("<path d=\"M{x:.1} {:.1}l3.6 6.2h-7.2z\"/>", y - 3.9),
        Some(_) => format!("<path d=\"M{x:.1} {:.1}l3.6 3.6l-3.6 3.6l-3.6 -3.6z\"/>", y - 3.6),
        None => String::new(),
    }
}

/// A number with four significant digits and a true minus sign.
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "–".into();
    }
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let text = if (-4..7).contains(&magnitude) {
        format!("{:.*}", (3 - magnitude).max(0) as usize, value)
    } else {
        format!("{value:.3e}")
    };
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[f64]) -> Chart {
        let points = values
            .iter()
            .enumerate()
            .map(|(i, v)| Point { x: 24.0 * (i + 1) as f64, y: *v, interval: Some((v - 1.0, v + 1.0)) })
            .collect();
        Chart {
            title: "RMSE <of> z500".into(),
            x: Axis::leads((1..=values.len()).map(|i| 24.0 * i as f64)),
            y: Axis::linear("m² s⁻²", values.iter().copied(), &[0.0]),
            series: vec![Series { name: "a & b".into(), style: Some(0), points }],
            reference: Some(0.0),
        }
    }

    #[test]
    fn every_point_is_in_the_frame_with_its_number_and_names_are_escaped() {
        let svg = chart(&[504.25, 754.0, 900.0]).svg();
        assert!(svg.contains("a &amp; b: 504.2, 95 % 503.2 to 505.2") && svg.contains("&lt;of&gt;"));
        assert_eq!(svg.matches("<circle").count(), 3);
        for part in svg.split("cx=\"").skip(1) {
            let x: f64 = part.split('"').next().unwrap().parse().unwrap();
            assert!((LEFT..=WIDTH - RIGHT).contains(&x));
        }
    }

    #[test]
    fn missing_values_interrupt_the_line_and_nothing_is_not_a_number() {
        for values in [&[1.0, f64::NAN, 2.0][..], &[], &[f64::NAN], &[3.0, 3.0], &[f64::INFINITY]] {
            let svg = chart(values).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
        assert!(chart(&[1.0, f64::NAN, 2.0]).svg().matches('M').count() >= 2);
    }

    #[test]
    fn axes_have_round_ticks_around_the_values() {
        let axis = Axis::linear("", [503.0, 988.0].into_iter(), &[0.0]);
        assert_eq!((axis.low, axis.high), (0.0, 1000.0));
        let labels = |axis: &Axis| axis.ticks.iter().map(|t| t.1.clone()).collect::<Vec<_>>();
        assert_eq!(labels(&Axis::leads([24.0, 120.0].into_iter())), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(
            labels(&Axis::leads([6.0, 24.0].into_iter())),
            ["0", "3", "6", "9", "12", "15", "18", "21", "24"]
        );
        assert_eq!(labels(&Axis::logarithmic("", [0.5, 3e6].into_iter()))[0], "1");
        assert_eq!(labels(&Axis::logarithmic("", [2000.0, 9000.0].into_iter())), ["2000", "5000"]);
    }

    #[test]
    fn figures_have_four_digits() {
        assert_eq!(figure(504.256), "504.3");
        assert_eq!(figure(-0.012346), "−0.01235");
        assert_eq!(figure(55471.7), "55472");
        assert_eq!(figure(1.5e12), "1.500e12");
        assert_eq!(figure(f64::NAN), "–");
    }
}
