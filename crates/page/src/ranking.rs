//! Horizontal bars with names in front of them.

use std::fmt::Write as _;

use crate::escape;
use crate::svg::short;

/// Room of the numbers behind the bars.
const NUMBERS: f64 = 48.0;
/// Height of a bar with the room around it.
const ROW: f64 = 18.0;
/// Room that a letter takes.
const LETTER: f64 = 6.4;

/// How much of a page's width a plot takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// All of it.
    Full,
    /// Half of it, where there is room for two.
    Half,
}

impl Width {
    /// Width of the whole plot, and of the names in it.
    fn sizes(self) -> (f64, f64) {
        match self {
            Self::Full => (1060.0, 300.0),
            Self::Half => (520.0, 190.0),
        }
    }
}

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
/// without the grey ones.
pub fn ranking(caption: &str, width: Width, rows: &[(String, Vec<Part>)]) -> String {
    let (whole, names) = width.sizes();
    let letters = (names / LETTER) as usize;
    let sum = |parts: &[Part], all: bool| -> f64 {
        let counted = parts.iter().filter(|part| all || part.series != Series::None);
        // A sum of nothing would be a negative zero.
        counted.map(|part| part.length).fold(0.0, |sum, length| sum + length)
    };
    let most = rows.iter().map(|(_, parts)| sum(parts, true)).fold(0.0, f64::max);
    let scale = if most > 0.0 { (whole - names - NUMBERS) / most } else { 0.0 };
    let height = ROW * rows.len() as f64 + 4.0;
    let mut svg = String::new();
    for (at, (name, parts)) in rows.iter().enumerate() {
        let (top, line) = (ROW * at as f64 + 3.0, ROW * at as f64 + 13.0);
        let _ = write!(
            svg,
            "<text class=\"name\" x=\"{:.1}\" y=\"{line:.1}\" text-anchor=\"end\">{}<title>{}</title></text>",
            names - 8.0,
            escape(&cut(name, letters)),
            escape(name)
        );
        let mut x = names;
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
    let caption = escape(caption);
    format!(
        "<figure><figcaption>{caption}</figcaption><svg viewBox=\"0 0 {whole} {height}\" role=\"img\" \
         aria-label=\"{caption}\">{svg}</svg></figure>\n"
    )
}

/// Draws one column a row from left to right in the order that is given, each of some parts: many things at one glance, whose names
/// appear when somebody points at them.
pub fn skyline(caption: &str, rows: &[(String, Vec<Part>)]) -> String {
    const HEIGHT: f64 = 150.0;
    let (whole, _) = Width::Full.sizes();
    let sum = |parts: &[Part]| parts.iter().fold(0.0, |sum, part| sum + part.length);
    let most = rows.iter().map(|(_, parts)| sum(parts)).fold(0.0, f64::max);
    let scale = if most > 0.0 { (HEIGHT - 16.0) / most } else { 0.0 };
    let step = (whole / rows.len().max(1) as f64).min(40.0);
    let mut svg = String::new();
    for (at, (name, parts)) in rows.iter().enumerate() {
        let mut y = HEIGHT;
        for part in parts.iter().filter(|part| part.length > 0.0) {
            let height = part.length * scale;
            y -= height;
            let _ = write!(
                svg,
                "<rect class=\"bar {}\" x=\"{:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{height:.1}\"><title>{}: {}</title></rect>",
                part.series.class(),
                step * at as f64,
                // Of very many there is no room between them.
                if step > 3.0 { step - 1.5 } else { step },
                escape(name),
                short(part.length)
            );
        }
    }
    let caption = escape(caption);
    format!(
        "<figure><figcaption>{caption}</figcaption><svg viewBox=\"0 0 {whole} {HEIGHT}\" role=\"img\" \
         aria-label=\"{caption}\">{svg}<line class=\"axis\" x1=\"0\" x2=\"{whole}\" y1=\"{HEIGHT}\" y2=\"{HEIGHT}\"/></svg></figure>\n"
    )
}

/// What the colours of a page stand for.
pub fn key(names: &[(Series, &str)]) -> String {
    let mut out = "<div class=\"key\">".to_owned();
    for (series, name) in names {
        let _ = write!(out, "<i class=\"{}\"></i>{}", series.class(), escape(name));
    }
    out.push_str("</div>\n");
    out
}

/// The name as far as it finds room, with its end: names of one kind begin alike.
fn cut(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    let (head, tail) = (most / 3, most - most / 3 - 1);
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
        let plot = ranking("tasks & more", Width::Half, &rows);
        assert!(
            plot.contains("a &lt;b&gt;") && plot.contains("tasks &amp; more") && !plot.contains("<b>"),
            "{plot}"
        );
        // Ten are as wide as there is room, 282; what is grey does not count.
        for piece in
            ["width=\"169.2\"", "width=\"56.4\"", "width=\"141.0\"", ">8</text>", ">5</text>", ">0</text>"]
        {
            assert!(plot.contains(piece), "{piece}: {plot}");
        }
        assert!(plot.contains("xxx…xxx"), "{plot}");
    }

    #[test]
    fn columns_are_as_high_as_their_numbers_say() {
        let rows: Vec<_> = (1..=100)
            .map(|n| (format!("r<{n}"), vec![Part { series: Series::Two, length: f64::from(n) }]))
            .collect();
        let plot = skyline("many", &rows);
        assert_eq!(plot.matches("<rect").count(), 100);
        assert!(
            plot.contains("height=\"134.0\"><title>r&lt;100: 100<") && plot.contains("height=\"67.0\""),
            "{plot}"
        );
        assert!(!skyline("", &[]).contains("NaN"));
    }

    #[test]
    fn colours_have_names() {
        let key = key(&[(Series::One, "train"), (Series::Three, "a < b")]);
        assert!(key.contains("<i class=\"one\"></i>train") && key.contains("a &lt; b"), "{key}");
    }

    #[test]
    fn nothing_makes_a_plot_without_bars() {
        let plot = ranking("", Width::Full, &[]);
        assert!(!plot.contains("NaN") && !plot.contains("<rect"), "{plot}");
    }
}
