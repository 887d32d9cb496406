//! The lab's figures as a chart: one bar per switch, with a line from the lowest to the highest round.

use std::fmt::Write;

const WIDTH: f64 = 820.0;
/// Left end of the bars, after the figures' names.
const LEFT: f64 = 300.0;
/// Room for the numbers after a bar.
const RIGHT: f64 = 190.0;
const TOP: f64 = 48.0;
const BAR: f64 = 18.0;
/// Space between the bars of two figures.
const GAP: f64 = 14.0;
const COLOURS: [&str; 3] = ["#1f6f8b", "#8c8c8c", "#b86b2b"];

/// The figure of one switch.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The switch.
    pub name: &'static str,
    /// Median, minimum and maximum of its rounds.
    pub spread: (f64, f64, f64),
}

/// One figure of all switches. Each figure has its own scale, because units differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Name and unit.
    pub title: &'static str,
    /// The switches.
    pub bars: Vec<Bar>,
}

/// Returns the chart, with the groups below each other.
pub fn svg(title: &str, groups: &[Group]) -> String {
    let rows: usize = groups.iter().map(|group| group.bars.len()).sum();
    let height = TOP + BAR * rows as f64 + GAP * groups.len() as f64 + 10.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\"><title>{title}</title>\
         <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\
         <text x=\"12\" y=\"24\" font-size=\"15\">{title}</text>\n"
    );
    let mut y = TOP;
    for group in groups {
        let most = group.bars.iter().map(|bar| bar.spread.2).fold(1.0, f64::max);
        let at = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * value / most;
        // Writing to a string cannot fail.
        let _ = writeln!(svg, "<text x=\"12\" y=\"{:.1}\">{}</text>", y + 13.0, group.title);
        for (bar, colour) in group.bars.iter().zip(COLOURS.iter().cycle()) {
            let (median, least, greatest) = bar.spread;
            let (end, middle) = (at(median), y + BAR / 2.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
                 <path d=\"M{:.1} {middle:.1}H{:.1}\" stroke=\"black\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{} {median:.0} ({least:.0} to {greatest:.0})</text>",
                y + 1.0,
                end - LEFT,
                BAR - 2.0,
                at(least),
                at(greatest),
                at(greatest) + 8.0,
                y + 13.0,
                bar.name
            );
            y += BAR;
        }
        y += GAP;
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the widths of the bars in the chart.
    fn widths(groups: &[Group]) -> Vec<String> {
        let svg = svg("t", groups);
        let bars = svg.split("<rect x=\"300\"").skip(1);
        bars.map(|it| it.split("width=\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn each_figure_has_a_scale_of_its_own() {
        let bar = |name, median, greatest| Bar { name, spread: (median, 0.0, greatest) };
        let groups = [
            Group { title: "a", bars: vec![bar("x", 10.0, 20.0), bar("y", 5.0, 5.0)] },
            Group { title: "b", bars: vec![bar("x", 3000.0, 3000.0)] },
        ];
        assert_eq!(widths(&groups), ["165.0", "82.5", "330.0"]);
        assert_eq!(widths(&[Group { title: "none", bars: vec![bar("x", 0.0, 0.0)] }]), ["0.0"]);
        assert!(svg("t", &[]).ends_with("</svg>\n"));
    }
}
