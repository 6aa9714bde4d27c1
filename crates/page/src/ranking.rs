//! Horizontal bars with names in front of them.

use std::fmt::Write as _;

use crate::escape;
use crate::svg::short;

/// Width of the whole plot, of the names, and of the numbers behind the bars.
const WIDTH: f64 = 640.0;
const NAMES: f64 = 210.0;
const NUMBERS: f64 = 56.0;
/// Height of a bar with the room around it.
const ROW: f64 = 20.0;
/// Letters of a name that find room.
const LETTERS: usize = 34;

/// What the parts of bars stand for, with the colour that they share everywhere on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Series {
    /// The first colour.
    One,
    /// The second.
    Two,
    /// The third.
    Three,
    /// Grey: what is not there.
    None,
}

impl Series {
    fn class(self) -> &'static str {
        match self {
            Self::One => "one",
            Self::Two => "two",
            Self::Three => "three",
            Self::None => "none",
        }
    }
}

/// A piece of a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Its colour.
    pub series: Series,
    /// Its length; not below 0.
    pub length: f64,
}

/// Draws one bar a row from left to right in the order that is given, each of some parts; the number behind it is their sum
/// without the grey ones. `key` names the colours.
pub fn ranking(caption: &str, key: &[(Series, &str)], rows: &[(String, Vec<Part>)]) -> String {
    let sum = |parts: &[Part], all: bool| -> f64 {
        let counted = parts.iter().filter(|part| all || part.series != Series::None);
        // A sum of nothing would be a negative zero.
        counted.map(|part| part.length).fold(0.0, |sum, length| sum + length)
    };
    let most = rows.iter().map(|(_, parts)| sum(parts, true)).fold(0.0, f64::max);
    let scale = if most > 0.0 { (WIDTH - NAMES - NUMBERS) / most } else { 0.0 };
    let height = ROW * rows.len() as f64 + 4.0;
    let mut svg = String::new();
    for (at, (name, parts)) in rows.iter().enumerate() {
        let (top, line) = (ROW * at as f64 + 3.0, ROW * at as f64 + 15.0);
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{line:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            NAMES - 8.0,
            escape(&cut(name)),
            escape(name)
        );
        let mut x = NAMES;
        for part in parts.iter().filter(|part| part.length > 0.0) {
            let width = part.length * scale;
            let _ = write!(
                svg,
                "<rect class=\"bar {}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\"><title>{}: {}</title></rect>",
                part.series.class(),
                ROW - 5.0,
                escape(name),
                short(part.length)
            );
            x += width;
        }
        let _ = write!(svg, "<text x=\"{:.1}\" y=\"{line:.1}\">{}</text>", x + 6.0, short(sum(parts, false)));
    }
    let mut names = String::new();
    if !key.is_empty() {
        names.push_str("<div class=\"key\">");
        for (series, name) in key {
            let _ = write!(names, "<i class=\"{}\"></i>{}", series.class(), escape(name));
        }
        names.push_str("</div>\n");
    }
    let caption = escape(caption);
    format!(
        "<figure class=\"full\"><figcaption>{caption}</figcaption>{names}<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{caption}\">{svg}</svg></figure>\n"
    )
}

/// The name as far as it finds room, with its end: names of one kind begin alike.
fn cut(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= LETTERS {
        return name.to_owned();
    }
    let (head, tail) = (LETTERS / 3, LETTERS - LETTERS / 3 - 1);
    letters[..head].iter().chain(&['…']).chain(&letters[letters.len() - tail..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_numbers_say() {
        let part = |series, length| Part { series, length };
        let rows = [
            (
                "a <b>".to_owned(),
                vec![part(Series::One, 6.0), part(Series::Two, 2.0), part(Series::None, 2.0)],
            ),
            ("x".repeat(80), vec![part(Series::One, 5.0)]),
            ("nothing".to_owned(), vec![]),
        ];
        let plot = ranking("tasks & more", &[(Series::One, "train"), (Series::Two, "test")], &rows);
        assert!(
            plot.contains("a &lt;b&gt;") && plot.contains("tasks &amp; more") && !plot.contains("<b>"),
            "{plot}"
        );
        // Ten are as wide as there is room, 374; what is grey does not count.
        for piece in
            ["width=\"224.4\"", "width=\"74.8\"", "width=\"187.0\"", ">8</text>", ">5</text>", ">0</text>"]
        {
            assert!(plot.contains(piece), "{piece}: {plot}");
        }
        assert!(plot.contains("xxx…xxx"), "{plot}");
    }

    #[test]
    fn nothing_makes_a_plot_without_bars() {
        let plot = ranking("", &[], &[]);
        assert!(!plot.contains("NaN") && !plot.contains("<rect"), "{plot}");
    }
}
