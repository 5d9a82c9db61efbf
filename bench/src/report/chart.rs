//! Charts as SVG: lines of several servers over one pair of axes.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 34.0;

/// Told apart by whoever can't tell red from green, and on paper.
const COLOURS: [&str; 2] = ["#0b62a4", "#d2691e"];

/// How an axis places values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Scale {
    Linear,
    /// Powers of ten, for what spans several.
    Log,
}

/// A line through points.
#[derive(Debug)]
pub(crate) struct Line {
    /// The place of the server: it chooses the colour.
    pub(crate) server: usize,
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart. Points outside of an axis's range are cut to it.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) y_unit: &'static str,
    pub(crate) y_scale: Scale,
    /// Where the horizontal axis is labelled, in its range, and how.
    pub(crate) x_labels: Vec<(f64, String)>,
    pub(crate) lines: Vec<Line>,
}

impl Chart {
    /// Draws it.
    pub(crate) fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let labels = self.x_labels.iter().map(|(x, _)| *x);
        let x = Axis::around(points().map(|(x, _)| *x).chain(labels), Scale::Linear);
        let y = Axis::around(points().map(|(_, y)| *y), self.y_scale);
        let across = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
        let down = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\"><text class=\"title\" \
             x=\"{LEFT}\" y=\"16\">{0}</text>",
            escape(&self.title)
        );
        for value in y.labels() {
            let at = down(value);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"y\" x=\"{:.1}\" y=\"{:.1}\">{} {}</text>",
                WIDTH - RIGHT,
                LEFT - 5.0,
                at + 4.0,
                short(value),
                self.y_unit
            );
        }
        for (value, label) in &self.x_labels {
            let _ = write!(
                svg,
                "<text class=\"x\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                across(*value),
                HEIGHT - BOTTOM + 18.0,
                escape(label)
            );
        }
        for (place, line) in self.lines.iter().enumerate() {
            let colour = COLOURS
                .get(line.server % COLOURS.len())
                .copied()
                .unwrap_or_default();
            let path: Vec<String> = line
                .points
                .iter()
                .map(|(x, y)| format!("{:.1},{:.1}", across(*x), down(*y)))
                .collect();
            let _ = write!(
                svg,
                "<polyline stroke=\"{colour}\" points=\"{}\"/><text class=\"key\" fill=\"{colour}\" \
                 x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                path.join(" "),
                WIDTH - RIGHT,
                TOP + 12.0 + 15.0 * place as f64,
                escape(&line.name)
            );
        }
        svg.push_str("</svg>");
        svg
    }
}

struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64>, scale: Scale) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            // A logarithm has no zero.
            let value = if scale == Scale::Log {
                value.max(1e-3)
            } else {
                value
            };
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            // Nothing to show; not from 0, which no logarithm reaches.
            (low, high) = (0.1, 1.0);
        }
        if scale == Scale::Log {
            (low, high) = (
                10_f64.powf(low.log10().floor()),
                10_f64.powf(high.log10().ceil()),
            );
        } else {
            low = low.min(0.0);
        }
        if high <= low {
            high = if scale == Scale::Log {
                low * 10.0
            } else {
                low + 1.0
            };
        }
        Self { low, high, scale }
    }

    /// Returns where a value is, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => {
                let log = value.max(self.low).log10() - self.low.log10();
                log / (self.high.log10() - self.low.log10())
            }
        };
        place.clamp(0.0, 1.0)
    }

    fn labels(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = (self.high - self.low) / 4.0;
                (0..=4)
                    .map(|number| self.low + step * f64::from(number))
                    .collect()
            }
            Scale::Log => {
                let mut labels = vec![self.low];
                while let Some(last) = labels
                    .last()
                    .copied()
                    .filter(|last| *last < self.high * 0.99)
                {
                    labels.push(last * 10.0);
                }
                labels
            }
        }
    }
}

fn short(value: f64) -> String {
    match value {
        1_000.0.. => format!("{:.1}k", value / 1e3),
        10.0.. => format!("{value:.0}"),
        1.0.. => format!("{value:.1}").trim_end_matches(".0").to_owned(),
        0.0 => "0".to_owned(),
        _ => format!("{value}").chars().take(5).collect(),
    }
}

/// Writes text so that it is text in HTML, and in an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(y_scale: Scale, points: Vec<(f64, f64)>) -> String {
        let chart = Chart {
            title: "a < b".to_owned(),
            y_unit: "ms",
            y_scale,
            x_labels: vec![(0.0, "0".to_owned()), (10.0, "10".to_owned())],
            lines: vec![Line {
                server: 0,
                name: "A".to_owned(),
                points,
            }],
        };
        chart.svg()
    }

    #[test]
    fn points_are_placed_within_the_axes() {
        let svg = chart(Scale::Log, vec![(0.0, 0.1), (10.0, 10.0)]);
        assert!(
            svg.contains(&format!("points=\"{LEFT:.1},{:.1} ", HEIGHT - BOTTOM)),
            "{svg}"
        );
        assert!(
            svg.contains(&format!(" {:.1},{TOP:.1}\"", WIDTH - RIGHT)),
            "{svg}"
        );
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn an_empty_or_flat_chart_has_figures_all_the_same() {
        for points in [vec![], vec![(0.0, 0.0)], vec![(1.0, 5.0), (2.0, 5.0)]] {
            for scale in [Scale::Linear, Scale::Log] {
                let svg = chart(scale, points.clone());
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }
}
