//! Numbers as pictures: SVG that the server writes, in the colours of the style sheet.

use std::fmt::Write as _;

use super::moment::span;
use super::text::escape;
use crate::number;

const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 44.0;

/// One small chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chart {
    /// What it is of.
    pub(super) title: &'static str,
    /// The latest figure.
    pub(super) now: String,
    /// The largest figure.
    pub(super) peak: String,
    /// The picture; nothing while there are too few figures.
    pub(super) svg: Option<String>,
}

impl Chart {
    /// A chart of these points, oldest first, with figures as `show` writes them.
    pub(super) fn new(title: &'static str, points: &[f64], show: fn(f64) -> String) -> Self {
        let largest = points.iter().copied().fold(0.0, f64::max);
        let now = points.last().map_or_else(|| "–".to_owned(), |last| show(*last));
        let peak = show(largest);
        let told = format!("{title}: {now} now, at most {peak}");
        Self { title, svg: area(points, largest, &told), now, peak }
    }
}

/// An area under a line.
fn area(points: &[f64], largest: f64, told: &str) -> Option<String> {
    if points.len() < 2 {
        return None;
    }
    let scale = if largest > 0.0 { (HEIGHT - 4.0) / largest } else { 0.0 };
    let step = WIDTH / (points.len() - 1) as f64;
    let mut line = String::new();
    for (at, value) in points.iter().enumerate() {
        let (x, y) = (at as f64 * step, HEIGHT - 1.0 - value * scale);
        let _ = write!(line, "{}{x:.0} {y:.0}", if at == 0 { "" } else { "L" });
    }
    Some(format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"{}\"><path class=\"fill\" d=\"M0 {HEIGHT}L{line}L{WIDTH} {HEIGHT}Z\"/>\
         <path class=\"line\" d=\"M{line}\" vector-effect=\"non-scaling-stroke\"/></svg>",
        escape(told)
    ))
}

/// Bars side by side, oldest first: how many letters of a group failed in each hour.
pub(super) fn sparkline(counts: &[u64]) -> String {
    const BAR: usize = 4;
    const TALLEST: u64 = 20;
    let largest = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = counts.len().max(1) * BAR;
    // One path for all bars: a page has fifty of these.
    let mut bars = String::new();
    for (at, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        // Whatever is not nothing can be seen.
        let height = (count * TALLEST / largest).max(2);
        let _ = write!(bars, "M{} {TALLEST}v-{height}", at * BAR + 2);
    }
    let told = format!(
        "{} in the last {} hours, at most {largest} in one",
        counts.iter().sum::<u64>(),
        counts.len()
    );
    format!(
        "<svg class=\"spark\" viewBox=\"0 0 {width} {TALLEST}\" role=\"img\" aria-label=\"{told}\">\
         <path class=\"bars\" d=\"{bars}\"/><path d=\"M0 {TALLEST}H{width}\"/></svg>"
    )
}

/// `0.4/s`, `120/s`.
pub(super) fn rate(value: f64) -> String {
    if value > 0.0 && value < 10.0 { format!("{value:.1}/s") } else { format!("{value:.0}/s") }
}

/// A whole number.
pub(super) fn whole(value: f64) -> String {
    number::grouped(value.max(0.0) as u64)
}

/// An age in seconds.
pub(super) fn age(value: f64) -> String {
    span(value.max(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_says_what_it_shows() {
        let chart = Chart::new("Backlog", &[1.0, 4.0, 0.0], whole);
        let svg = chart.svg.unwrap();
        assert_eq!((chart.now.as_str(), chart.peak.as_str()), ("0", "4"));
        assert!(svg.contains("aria-label=\"Backlog: 0 now, at most 4\""));
        assert!(svg.contains("d=\"M0 33L120 3L240 43\""), "{svg}");
    }

    #[test]
    fn without_figures_there_is_no_chart() {
        assert_eq!(Chart::new("Backlog", &[], whole).svg, None);
        assert_eq!(Chart::new("Backlog", &[1.0], whole).svg, None);
    }

    #[test]
    fn a_sparkline_shows_whatever_is_not_nothing() {
        let svg = sparkline(&[0, 1, 1_000]);
        assert!(svg.contains("d=\"M6 20v-2M10 20v-20\""), "{svg}");
        assert!(svg.contains("1001 in the last 3 hours"));
        assert!(sparkline(&[]).contains("0 in the last 0 hours"));
    }

    #[test]
    fn nothing_in_a_picture_needs_a_style_of_its_own() {
        let svg = Chart::new("x", &[1.0, 1.0], rate).svg.unwrap() + &sparkline(&[1]);
        assert!(!svg.contains("style="), "the content security policy would refuse it");
    }
}
