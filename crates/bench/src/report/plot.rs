//! Plots as inline SVG. Each has a title and a description for screen readers; marks differ in shape and not
//! only in colour.

use load::generate::numbers::human;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 44.0;
/// Fewer values than this are not drawn.
const COMPARED: usize = 2;
/// The shortest time of a histogram, in microseconds.
const SHORTEST_US: f64 = 0.01;

/// Returns the text with HTML's special characters escaped.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The shape of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A triangle up: passed.
    Up,
    /// A triangle down: failed.
    Down,
    /// A square: invalid.
    Square,
    /// A dot.
    Dot,
}

impl Mark {
    fn draw(self, x: f64, y: f64) -> String {
        match self {
            Mark::Up => format!("<path class=\"up\" d=\"M{x:.1} {:.1}l7 12h-14z\"/>", y - 7.0),
            Mark::Down => format!("<path class=\"down\" d=\"M{x:.1} {:.1}l7 -12h-14z\"/>", y + 7.0),
            Mark::Square => format!(
                "<rect class=\"square\" x=\"{:.1}\" y=\"{:.1}\" width=\"11\" height=\"11\"/>",
                x - 5.5,
                y - 5.5
            ),
            Mark::Dot => format!("<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\"/>"),
        }
    }
}

/// The labels of a plot.
pub struct Frame<'a> {
    /// Unique on the page.
    pub id: &'a str,
    /// What it shows.
    pub title: &'a str,
    /// The same in words, with the numbers that matter.
    pub description: &'a str,
    /// What the horizontal axis counts.
    pub x_name: &'a str,
    /// What the vertical axis counts.
    pub y_name: &'a str,
}

/// An axis from the smallest to the largest value.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let place = |v: f64| if self.logarithmic { v.max(1e-9).ln() } else { v };
        let (low, high) = (place(self.low), place(self.high));
        let share = if high > low { (place(value) - low) / (high - low) } else { 0.5 };
        self.from + share * (self.to - self.from)
    }

    fn vertical(high: f64) -> Axis {
        let high = if high > 0.0 { high * 1.08 } else { 1.0 };
        Axis { low: 0.0, high, from: HEIGHT - BOTTOM, to: TOP, logarithmic: false }
    }
}

impl Frame<'_> {
    fn open(&self) -> String {
        let (id, title, description) = (self.id, escape(self.title), escape(self.description));
        format!(
            "<figure><svg role=\"img\" aria-labelledby=\"{id}-t {id}-d\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\"><title id=\"{id}-t\">{title}</title>\
             <desc id=\"{id}-d\">{description}</desc>"
        )
    }

    fn axes(&self, y: &Axis) -> String {
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let mut text = format!(
            "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>\
             <text class=\"name\" x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>\
             <text class=\"name\" x=\"14\" y=\"{:.0}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {:.0})\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 6.0,
            escape(self.x_name),
            HEIGHT / 2.0,
            HEIGHT / 2.0,
            escape(self.y_name)
        );
        for step in 0..=4 {
            let value = y.high * f64::from(step) / 4.0;
            let at = y.at(value);
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                human(value)
            );
        }
        text
    }

    fn close(&self) -> String {
        format!("</svg><figcaption>{}</figcaption></figure>\n", escape(self.description))
    }

    /// Draws marks, joined by a line if `joined`; nothing if there are fewer than two.
    pub fn points(&self, points: &[(f64, f64, Mark)], joined: bool) -> String {
        if points.len() < COMPARED {
            return String::new();
        }
        let most = points.iter().map(|p| p.1).fold(0.0, f64::max);
        let y = Axis::vertical(most);
        let low = points.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
        let high = points.iter().map(|p| p.0).fold(0.0, f64::max);
        let (from, to) = (LEFT + 20.0, WIDTH - RIGHT - 20.0);
        let x = Axis { low, high, from, to, logarithmic: false };
        let mut text = self.open() + &self.axes(&y);
        if joined {
            let line: Vec<String> =
                points.iter().map(|p| format!("{:.1} {:.1}", x.at(p.0), y.at(p.1))).collect();
            let _ = write!(text, "<path class=\"line\" d=\"M{}\"/>", line.join("L"));
        }
        let each = points.len().div_ceil(16).max(1);
        for (index, (at, value, mark)) in points.iter().enumerate() {
            text.push_str(&mark.draw(x.at(*at), y.at(*value)));
            if index % each == 0 {
                let _ = write!(
                    text,
                    "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{at}</text>",
                    x.at(*at),
                    HEIGHT - BOTTOM + 16.0
                );
            }
        }
        text + &self.close()
    }

    /// Draws a bar for each name; nothing if there are fewer than two.
    pub fn bars(&self, bars: &[(String, f64)]) -> String {
        if bars.len() < COMPARED {
            return String::new();
        }
        let y = Axis::vertical(bars.iter().map(|bar| bar.1).fold(0.0, f64::max));
        let mut text = self.open() + &self.axes(&y);
        let wide = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
        for (index, (name, value)) in bars.iter().enumerate() {
            let (left, top) = (LEFT + wide * index as f64, y.at(*value));
            let middle = left + wide / 2.0;
            let _ = write!(
                text,
                "<rect class=\"bar\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"/><text x=\"{middle:.1}\" y=\"{:.1}\" \
                 text-anchor=\"middle\">{}</text><text x=\"{middle:.1}\" y=\"{:.0}\" \
                 text-anchor=\"middle\">{}</text>",
                left + wide * 0.15,
                wide * 0.7,
                (HEIGHT - BOTTOM - top).max(0.0),
                top - 4.0,
                human(*value),
                HEIGHT - BOTTOM + 16.0,
                escape(name)
            );
        }
        text + &self.close()
    }

    /// A histogram: the upper end of each bucket and its count, on a logarithmic axis. With fewer than two
    /// buckets, only the description.
    pub fn histogram(&self, buckets: &[(f64, f64)]) -> String {
        if buckets.len() < COMPARED {
            return format!("<p>{}</p>\n", escape(self.description));
        }
        let y = Axis::vertical(buckets.iter().map(|b| b.1).fold(0.0, f64::max));
        // The logarithm of zero is not defined: zero durations are drawn at the shortest one.
        let place = |us: f64| us.max(SHORTEST_US);
        let low = buckets.first().map_or(1.0, |b| place(b.0) / 1.1);
        let high = buckets.last().map_or(10.0, |b| place(b.0) * 1.1);
        let x = Axis { low, high, from: LEFT, to: WIDTH - RIGHT, logarithmic: true };
        let mut text = self.open() + &self.axes(&y);
        let mut before = low;
        for (end, count) in buckets {
            let end = place(*end);
            let from = before.max(end / 1.04);
            let (left, right, top) = (x.at(from), x.at(end), y.at(*count));
            let _ = write!(
                text,
                "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" \
                 height=\"{:.1}\"/>",
                (right - left).max(1.0),
                (HEIGHT - BOTTOM - top).max(0.0)
            );
            before = end;
        }
        let mut tick = 10f64.powf(low.max(1e-3).log10().ceil());
        while tick <= high {
            let _ = write!(
                text,
                "<text x=\"{:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
                x.at(tick),
                HEIGHT - BOTTOM + 16.0,
                if tick < 1.0 { tick.to_string() } else { human(tick) }
            );
            tick *= 10.0;
        }
        text + &self.close()
    }
}
