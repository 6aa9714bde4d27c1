//! Plots.

use std::fmt::Write as _;

use crate::escape;

/// Size of a plot, and the room around its field.
const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 210.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = 34.0;
const TOP: f64 = 12.0;
const RIGHT: f64 = 14.0;

/// So many times further from the smallest number than nine tenths of all, a number is far above the others.
const FAR: f64 = 2.5;

/// Bars with names below them.
pub fn bars(caption: &str, bars: &[(String, f64)]) -> String {
    let most = bars.iter().map(|(_, height)| *height).fold(0.0, f64::max);
    let top = round_up(most);
    let mut svg = String::new();
    axes(&mut svg, top);
    let step = (WIDTH - LEFT - RIGHT) / bars.len().max(1) as f64;
    // As many names as fit.
    let every = bars.len().div_ceil(5).max(1);
    for (index, (name, height)) in bars.iter().enumerate() {
        let (x, y) = (LEFT + step * index as f64, place(*height, top));
        let _ = write!(
            svg,
            "<rect class=\"bar\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{}: {}</title></rect>",
            x + step * 0.08,
            step * 0.84,
            HEIGHT - BOTTOM - y,
            escape(name),
            short(*height)
        );
        // The last name is there in any case, and the one before it gives way.
        let is_last = index + 1 == bars.len();
        if is_last || bars.len() <= 8 || (index % every == 0 && index + every < bars.len()) {
            label(&mut svg, x + step / 2.0, name);
        }
    }
    figure(caption, &svg)
}

/// Numbers in at most `most` bars of equal width. A few that lie far above the others are all in the last bar.
pub fn histogram(caption: &str, sorted: &[f64], most: usize) -> String {
    let (Some(&first), Some(&largest)) = (sorted.first(), sorted.last()) else { return String::new() };
    let usual = sorted[(sorted.len() * 9 / 10).min(sorted.len() - 1)];
    let far = first + (usual - first) * FAR;
    let last = if usual > first && largest > far { far } else { largest };
    let is_whole = sorted.iter().all(|number| number.fract() == 0.0);
    let range = (last - first).max(f64::MIN_POSITIVE);
    let mut width = range / most as f64;
    if is_whole {
        width = width.ceil().max(1.0);
    }
    let count = if last > first { (((last - first) / width).floor() as usize + 1).min(most + 1) } else { 1 };
    let mut counts = vec![0.0; count];
    for number in sorted {
        counts[(((number - first) / width) as usize).min(count - 1)] += 1.0;
    }
    let open_end = if largest > last { "≥ " } else { "" };
    let named: Vec<_> = counts
        .into_iter()
        .enumerate()
        .map(|(index, number)| {
            let name = short(first + width * index as f64);
            (if index + 1 == count { format!("{open_end}{name}") } else { name }, number)
        })
        .collect();
    bars(caption, &named)
}

/// Lines over the same points, with values from 0 to 1.
pub fn lines(caption: &str, names: &[String], series: &[(&str, Vec<f64>)]) -> String {
    let mut svg = String::new();
    axes(&mut svg, 1.0);
    let count = names.len();
    let x = |index: usize| LEFT + (WIDTH - LEFT - RIGHT) * (index as f64 + 0.5) / count.max(1) as f64;
    for (number, (name, values)) in series.iter().enumerate() {
        let class = if number == 0 { "" } else { " second" };
        let points: Vec<_> = values
            .iter()
            .enumerate()
            .map(|(index, value)| format!("{:.1},{:.1}", x(index), place(*value, 1.0)))
            .collect();
        let _ = write!(svg, "<polyline class=\"line{class}\" points=\"{}\"/>", points.join(" "));
        for (index, value) in values.iter().enumerate() {
            let _ = write!(
                svg,
                "<circle class=\"dot{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\"><title>{} at {}: {value:.4}</title></circle>",
                x(index),
                place(*value, 1.0),
                escape(name),
                escape(&names[index])
            );
        }
        let _ = write!(
            svg,
            "<circle class=\"dot{class}\" cx=\"{:.1}\" cy=\"6\" r=\"4\"/><text x=\"{:.1}\" y=\"10\">{}</text>",
            LEFT + 10.0 + 90.0 * number as f64,
            LEFT + 18.0 + 90.0 * number as f64,
            escape(name)
        );
    }
    let every = (count / 10).max(1);
    for (index, name) in names.iter().enumerate().filter(|(index, _)| index % every == 0) {
        label(&mut svg, x(index), name);
    }
    figure(caption, &svg)
}

/// A value with its interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// What was measured.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Both ends of its interval.
    pub interval: Option<(f64, f64)>,
}

/// Points on lines from 0 to 1, one below the other, each with the ends of its interval.
pub fn intervals(caption: &str, rows: &[Measured]) -> String {
    measured(caption, rows, 0.0, 1.0)
}

/// The same for differences: 0 is in the middle, and the lines are as long as the values ask for.
pub fn differences(caption: &str, rows: &[Measured]) -> String {
    let ends = |row: &Measured| {
        let (low, high) = row.interval.unwrap_or((row.value, row.value));
        low.abs().max(high.abs()).max(row.value.abs())
    };
    let most = round_up(rows.iter().map(ends).fold(0.0, f64::max));
    measured(caption, rows, -most, most)
}

fn measured(caption: &str, rows: &[Measured], first: f64, last: f64) -> String {
    const ROOM: f64 = 112.0;
    let mut svg = String::new();
    let x = |value: f64| ROOM + (WIDTH - ROOM - RIGHT) * ((value - first) / (last - first)).clamp(0.0, 1.0);
    let bottom = HEIGHT - BOTTOM;
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let value = first + (last - first) * share;
        let x = x(value);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            short(value)
        );
    }
    let step = (bottom - TOP) / rows.len().max(1) as f64;
    for (index, Measured { name, value, interval }) in rows.iter().enumerate() {
        let y = TOP + step * (index as f64 + 0.5);
        let mut cut: String = name.chars().take(15).collect();
        if cut.len() < name.len() {
            cut.push('…');
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            ROOM - 8.0,
            y + 4.0,
            escape(&cut)
        );
        if let Some((low, high)) = interval {
            let (low, high) = (x(*low), x(*high));
            let _ = write!(svg, "<polyline class=\"line\" points=\"{low:.1},{y:.1} {high:.1},{y:.1}\"/>");
        }
        let _ = write!(
            svg,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{}: {value:.4}</title></circle>",
            x(*value),
            escape(name)
        );
    }
    figure(caption, &svg)
}

fn figure(caption: &str, svg: &str) -> String {
    let caption = escape(caption);
    format!(
        "<figure><figcaption>{caption}</figcaption><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{caption}\">{svg}</svg></figure>\n"
    )
}

fn axes(svg: &mut String, top: f64) {
    for share in [0.0, 0.5, 1.0] {
        let y = place(top * share, top);
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            short(top * share)
        );
    }
}

fn label(svg: &mut String, x: f64, name: &str) {
    let mut cut: String = name.chars().take(14).collect();
    if cut.len() < name.len() {
        cut.push('…');
    }
    let y = HEIGHT - BOTTOM + 16.0;
    // Half of a name of this many letters; the last one must not leave the picture.
    let x = x.min(WIDTH - 3.4 * cut.chars().count() as f64);
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", escape(&cut));
}

fn place(value: f64, top: f64) -> f64 {
    let share = if top > 0.0 { (value / top).clamp(0.0, 1.0) } else { 0.0 };
    TOP + 4.0 + (HEIGHT - BOTTOM - TOP - 4.0) * (1.0 - share)
}

/// The next number with one digit that is not below.
fn round_up(number: f64) -> f64 {
    if number <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(number.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|top| *top >= number).unwrap_or(number)
}

/// A number in few signs.
pub fn short(number: f64) -> String {
    let (value, unit) = match number.abs() {
        size if size >= 1e9 => (number / 1e9, "G"),
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e4 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in
            [(0.0, "0"), (0.25, "0.25"), (1500.0, "1500"), (12_345.0, "12.35k"), (8.7e6, "8.7M")]
        {
            assert_eq!(short(number), text);
        }
        assert_eq!(short(round_up(7.0)), "8");
        assert_eq!(short(round_up(30.0)), "40");
    }

    #[test]
    fn odd_numbers_make_plots() {
        for numbers in [&[][..], &[5.0], &[0.0, 0.0], &[0.5, 1e9], &[-1.0, 1.0]] {
            let plot = histogram("x <y>", numbers, 12);
            assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
            assert!(plot.is_empty() || plot.contains("x &lt;y&gt;"));
        }
    }

    #[test]
    fn differences_have_zero_in_the_middle() {
        let row = |value, interval| Measured { name: "d".into(), value, interval };
        let plot = differences("d", &[row(0.0, None), row(-0.3, Some((-0.35, 0.1)))]);
        assert!(plot.contains(">-0.4<") && plot.contains(">0<") && plot.contains(">0.4<"), "{plot}");
        let middle = 112.0 + (WIDTH - 112.0 - RIGHT) / 2.0;
        assert!(plot.contains(&format!("cx=\"{middle:.1}\"")), "{plot}");
        assert!(!differences("d", &[row(0.0, None)]).contains("NaN"));
    }
}
