//! A report as one HTML page: it asks nobody for anything, so that it can be kept and sent around.

use std::fmt::Write;

use crate::{
    load::{Kind, Latencies},
    report::{
        chart::{Chart, Line, Scale, escape},
        model::{Outcome, Report},
        table::Table,
        terminal,
    },
};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#222}\
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}\
table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.5rem 0;display:block;overflow-x:auto}\
td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}\
td:first-child,th:first-child{text-align:left}\
.charts{display:flex;flex-wrap:wrap;gap:1rem}.charts svg{width:min(100%,34rem)}\
svg text{font:11px system-ui,sans-serif}svg .title{font-weight:600;font-size:13px}\
svg .y,svg .key{text-anchor:end}svg .x{text-anchor:middle}svg .grid{stroke:#ddd}\
svg polyline{fill:none;stroke-width:1.8}\
.failed{background:#fdd;padding:.5rem}.passed{background:#dfd;padding:.5rem}\
code{background:#f4f4f4;padding:.1rem .3rem;overflow-wrap:anywhere}";

/// Writes the page.
pub(crate) fn html(report: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>hikyaku bench {0}</title><style>{STYLE}</style></head>\
         <body><h1>hikyaku bench {0}</h1>",
        report.measurement
    );
    let class = match report.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) | Outcome::Interrupted => "failed",
    };
    let mut sentences = terminal::sentences(report);
    let end = sentences.pop().unwrap_or_default();
    let _ = write!(page, "<p class=\"{class}\">{}</p>", escape(&end));
    let _ = write!(
        page,
        "<p>{}; {} ({} cores, {} MB), {}; load before: {}</p><p><code>{}</code></p><ul>",
        escape(&report.begun),
        escape(&report.machine.processor),
        report.machine.cores,
        report.machine.memory_mb,
        escape(&report.machine.system),
        escape(&report.machine.load_before),
        escape(&report.command)
    );
    for target in &report.targets {
        let durability = target.durability.as_deref().unwrap_or("not said");
        let _ = write!(
            page,
            "<li><b>{}</b> {}; an answered write is: {}</li>",
            target.name,
            escape(target.address.as_str()),
            escape(durability)
        );
    }
    for sentence in &sentences {
        let _ = write!(page, "<li>{}</li>", escape(sentence));
    }
    page.push_str("</ul>");
    for part in report.parts() {
        let _ = write!(page, "<h2>{}</h2><div class=\"charts\">", escape(part));
        page.push_str(&latencies(report, part).svg());
        page.push_str(&throughput(report, part).svg());
        page.push_str("</div>");
    }
    page.push_str("<h2>All figures</h2>");
    for it in terminal::tables(report) {
        table(&it, &mut page);
    }
    page.push_str("</body></html>\n");
    page
}

fn table(table: &Table, page: &mut String) {
    let _ = write!(page, "<h3>{}</h3><table>", escape(table.title()));
    for (place, line) in table.lines().iter().enumerate() {
        let cell = if place == 0 { "th" } else { "td" };
        page.push_str("<tr>");
        for text in line {
            let _ = write!(page, "<{cell}>{}</{cell}>", escape(text));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table>");
}

/// The curve of all operations of a part: each step to the right is another nine.
fn latencies(report: &Report, part: &str) -> Chart {
    let nines = |share: f64| -(1.0 - share).log10();
    let mut lines = Vec::new();
    for kind in [None, Some(Kind::Delivery)] {
        for (place, target) in report.targets.iter().enumerate() {
            let mut all = Latencies::default();
            let counts = report.rounds(part, place).flat_map(|round| &round.counts);
            for counts in counts.filter(|it| (it.class.kind == Kind::Delivery) == kind.is_some()) {
                all.add(&counts.latencies);
            }
            let curve = all.summary().curve;
            let points: Vec<_> = curve
                .into_iter()
                .filter(|(share, _)| *share < 1.0)
                .map(|(share, ms)| (nines(share), ms))
                .collect();
            if !points.is_empty() {
                let what = if kind.is_some() { ", deliveries" } else { "" };
                lines.push(Line {
                    server: place,
                    name: format!("{}{what}", target.name),
                    points,
                });
            }
        }
    }
    let labels = [
        (0.0, "all"),
        (nines(0.5), "p50"),
        (1.0, "p90"),
        (2.0, "p99"),
        (3.0, "p99.9"),
    ];
    let longest = lines
        .iter()
        .flat_map(|line| &line.points)
        .fold(1.0_f64, |max, it| max.max(it.0));
    Chart {
        title: format!("{part}: latency"),
        y_unit: "ms",
        y_scale: Scale::Log,
        x_labels: labels
            .into_iter()
            .filter(|(at, _)| *at <= longest + 0.01)
            .map(|(at, label)| (at, label.to_owned()))
            .collect(),
        lines,
    }
}

/// What was done in each second, the rounds one after the other.
fn throughput(report: &Report, part: &str) -> Chart {
    let mut lines = Vec::new();
    let mut longest = 1;
    for (place, target) in report.targets.iter().enumerate() {
        let mut points = Vec::new();
        for round in report.rounds(part, place) {
            let seconds = round.elapsed.as_secs_f64();
            for (second, count) in round.timeline.iter().enumerate() {
                // The last second is not a whole one.
                let share = (seconds - second as f64).clamp(0.05, 1.0);
                points.push((points.len() as f64, *count as f64 / share));
            }
        }
        longest = longest.max(points.len());
        lines.push(Line {
            server: place,
            name: target.name.to_owned(),
            points,
        });
    }
    let step = (longest / 6).max(1);
    Chart {
        title: format!("{part}: done a second, by second"),
        y_unit: "/s",
        y_scale: Scale::Linear,
        x_labels: (0..longest)
            .step_by(step)
            .map(|at| (at as f64, at.to_string()))
            .collect(),
        lines,
    }
}
