//! A chart of counters over time, as a standalone SVG.

use crate::BenchError;
use crate::report::plot::escape;
use load::generate::numbers::human;
use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;
/// Height of a line of the legend.
const LEGEND: f64 = 16.0;
/// Lines differ in colour and in dashes.
const STYLES: [(&str, &str); 6] = [
    ("#1f5f99", ""),
    ("#b3431e", "7 3"),
    ("#2f7d3b", "2 3"),
    ("#6b4fa0", "10 3 2 3"),
    ("#8a6d00", "1 4"),
    ("#444444", "14 4"),
];

/// One line of a chart.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Seconds and values.
    pub points: Vec<(f64, f64)>,
}

/// A chart of lines over time.
pub struct Chart<'a> {
    /// The title.
    pub title: &'a str,
    /// The label of the vertical axis.
    pub y_name: &'a str,
    /// The lines.
    pub lines: &'a [Line],
}

impl Chart<'_> {
    /// Writes the chart as an SVG file, if one is requested.
    pub fn write(&self, file: Option<&Path>) -> Result<(), BenchError> {
        let Some(file) = file else { return Ok(()) };
        std::fs::write(file, self.svg())
            .map_err(|source| BenchError::WriteChart { file: file.to_owned(), source })
    }

    /// The drawing.
    fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let (x_most, y_most) = (most(|p| p.0).max(1e-3), most(|p| p.1).max(1.0) * 1.05);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let x = |value: f64| LEFT + value / x_most * (right - LEFT);
        let y = |value: f64| bottom - value / y_most * (bottom - TOP);
        let (title, y_name) = (escape(self.title), escape(self.y_name));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\"><title>{title}</title>\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\
             <path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"black\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">seconds</text>\
             <text x=\"16\" y=\"{:.0}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 16 {:.0})\">{y_name}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 12.0,
            HEIGHT / 2.0,
            HEIGHT / 2.0
        );
        let digits = if x_most < 2.0 { 3 } else { 1 };
        for step in 0..=4 {
            let part = f64::from(step) / 4.0;
            let (at_x, at_y) = (x(x_most * part), y(y_most * part));
            // Writing to a string cannot fail.
            let _ = write!(
                svg,
                "<path d=\"M{LEFT} {at_y:.1}H{right}\" stroke=\"#ddd\"/>\
                 <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
                 <text x=\"{at_x:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{:.digits$}</text>",
                LEFT - 6.0,
                at_y + 4.0,
                human(y_most * part),
                bottom + 18.0,
                x_most * part
            );
        }
        for (number, (line, (colour, dashes))) in
            self.lines.iter().zip(STYLES.iter().cycle()).enumerate()
        {
            let style = format!(
                "fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dashes}\""
            );
            let at = |(a, b): &(f64, f64)| format!("{:.1} {:.1}", x(*a), y(*b));
            let path: Vec<String> = line.points.iter().map(at).collect();
            let legend = TOP + LEGEND * (number as f64 + 1.0);
            let _ = write!(
                svg,
                "<path d=\"M{}\" {style}/><path d=\"M{:.0} {:.0}h28\" {style}/>\
                 <text x=\"{:.0}\" y=\"{legend:.0}\">{}</text>",
                path.join("L"),
                LEFT + 12.0,
                legend - 4.0,
                LEFT + 46.0,
                escape(&line.name)
            );
        }
        svg + "</svg>\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_every_line_and_stands_alone() {
        let line = |name: &str, most: f64| Line {
            name: name.to_owned(),
            points: vec![(0.0, 0.0), (1.0, most / 2.0), (2.0, most)],
        };
        let lines = [line("off", 10e6), line("every second <1>", 900e3)];
        let chart = Chart { title: "flows & time", y_name: "flows", lines: &lines };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.svg");
        chart.write(Some(&file)).unwrap();
        let svg = std::fs::read_to_string(file).unwrap();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        for piece in ["every second &lt;1&gt;", "flows &amp; time", ">off<", "10.5M", ">2.0<"] {
            assert!(svg.contains(piece), "{piece} in {svg}");
        }
        assert!(!svg.contains("NaN"), "{svg}");
        let nothing = Chart { lines: &[], ..chart };
        assert!(!nothing.svg().contains("NaN"));
        let error = nothing.write(Some(Path::new("/proc/no/such"))).unwrap_err();
        assert!(error.to_string().contains("/proc/no/such"), "{error}");
    }
}
