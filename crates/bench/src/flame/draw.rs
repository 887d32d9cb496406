//! A flame graph as SVG: one bar per function, as wide as the time of the function and of those that it
//! called, whose bars are above it. A click on a bar zooms to it.
//!
//! Without a library: the maintained crate for it, inferno, has a licence that this project does not allow.

use super::tree::{Call, Tree};
use crate::report::plot::escape;
use std::fmt::Write;

const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const HEADING: f64 = 40.0;
/// About the width of a letter.
const LETTER: f64 = 6.6;
/// Narrower bars are left out.
const NARROWEST: f64 = 0.3;

const STYLE: &str = "text{font:11px monospace;pointer-events:none}.title{font:15px sans-serif}\
rect{stroke:#fff;stroke-width:.5}g:hover>rect{stroke:#000}";

/// Zooms to the clicked bar, with those above and below it; a click on the lowest one shows all. `data-x` and
/// `data-w` are the place of a bar as fractions of the whole.
const SCRIPT: &str = "
const bars=[...document.querySelectorAll('g.bar')];
function place(bar){return [+bar.dataset.x,+bar.dataset.w]}
function show(x0,w0){for(const bar of bars){const [x,w]=place(bar);
const left=Math.max(0,(x-x0)/w0),right=Math.min(1,(x+w-x0)/w0),width=(right-left)*1200;
bar.style.display=width>0.3?'':'none';if(width<=0)continue;
bar.querySelector('rect').setAttribute('x',left*1200);
bar.querySelector('rect').setAttribute('width',width);
const text=bar.querySelector('text');text.setAttribute('x',left*1200+3);
const room=Math.floor((width-6)/6.6),name=bar.dataset.name;
text.textContent=room<3?'':name.length<=room?name:name.slice(0,room-1)+'…';}}
for(const bar of bars)bar.addEventListener('click',()=>show(...place(bar)));
";

/// The whole picture.
pub fn svg(tree: &Tree, title: &str) -> String {
    let height = HEADING + tree.root.depth() as f64 * ROW + 6.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{0}</title>\n\
         <desc>Each bar is a function; its width is its part of the processor time, with what it \
         called above it.</desc>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"8\" y=\"24\">{0}: {1} looks</text>\n",
        escape(title),
        tree.looks()
    );
    let mut picture = Picture { out: &mut out, looks: tree.looks().max(1) as f64, height };
    picture.bar("all", &tree.root, 0, 0);
    let _ = writeln!(out, "<script><![CDATA[{SCRIPT}]]></script>\n</svg>");
    out
}

struct Picture<'a> {
    out: &'a mut String,
    /// In all.
    looks: f64,
    height: f64,
}

impl Picture<'_> {
    /// Draws a node that starts after this many samples, and its children.
    fn bar(&mut self, name: &str, call: &Call, before: u64, row: usize) {
        let (x, part) = (before as f64 / self.looks, call.looks as f64 / self.looks);
        let (left, width) = (x * WIDTH, part * WIDTH);
        if width < NARROWEST {
            return;
        }
        let y = self.height - 4.0 - (row + 1) as f64 * ROW;
        let percent = part * 100.0;
        let (whole, text, colour) = (escape(name), escape(&cut(name, width)), colour(name));
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.out,
            "<g class=\"bar\" data-x=\"{x:.6}\" data-w=\"{part:.6}\" data-name=\"{whole}\">\
             <title>{whole}: {percent:.2}% ({} looks)</title>\
             <rect x=\"{left:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{}\" fill=\"{colour}\"/>\
             <text x=\"{:.2}\" y=\"{}\">{text}</text></g>",
            call.looks,
            ROW - 1.0,
            left + 3.0,
            y + 13.0,
        );
        let mut before = before;
        for (name, callee) in &call.callees {
            self.bar(name, callee, before, row + 1);
            before += callee.looks;
        }
    }
}

/// Returns the part of a name that fits.
fn cut(name: &str, width: f64) -> String {
    let room = ((width - 6.0) / LETTER) as usize;
    match name.chars().count() {
        _ if room < 3 => String::new(),
        count if count <= room => name.to_owned(),
        _ => name.chars().take(room - 1).chain(['…']).collect(),
    }
}

/// A warm colour, the same for all functions of a crate.
fn colour(name: &str) -> String {
    let path = name.trim_start_matches(['<', '&']);
    let crate_name = path.split("::").next().unwrap_or(path);
    let hash = crate_name
        .bytes()
        .fold(7_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("hsl({},{}%,{}%)", hash % 60, 70 + hash / 60 % 25, 62 + hash / 1500 % 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_wide_as_the_looks_and_say_what_they_are() {
        let mut tree = Tree::new();
        let stack = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        tree.add(stack("tidegate::run <conntrack::Tracker>::execute").into_iter(), 3);
        tree.add(stack("tidegate::rest").into_iter(), 1);
        let picture = svg(&tree, "a & b");
        for piece in [
            "<title>a &amp; b</title>",
            "a &amp; b: 4 looks",
            "data-name=\"&lt;conntrack::Tracker&gt;::execute\"",
            "<title>tidegate::rest: 25.00% (1 looks)</title>",
            "data-x=\"0.250000\" data-w=\"0.750000\" data-name=\"tidegate::run\"",
            "width=\"300.00\"",
        ] {
            assert!(picture.contains(piece), "{piece}: {picture}");
        }
        assert_eq!(picture.matches("<g class").count(), 4);
        assert!(svg(&Tree::new(), "nothing").contains("0 looks"));
    }

    #[test]
    fn names_are_cut_where_there_is_no_room() {
        let cases = [(10.0, ""), (40.0, "abcd…"), (72.0, "abcdefghij"), (200.0, "abcdefghij")];
        for (width, expect) in cases {
            assert_eq!(cut("abcdefghij", width), expect, "{width}");
        }
    }
}
