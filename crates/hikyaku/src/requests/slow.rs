//! `slow`: the requests by shape, the statements they make, and what one should look at.

use std::{path::Path, process::ExitCode};

use hikyaku_observe::{ShapeFigures, Snapshot};
use serde_json::{Value, json};

use super::{
    ask, kept,
    table::{self, Sort, phases},
};
use crate::{commands::print, configuration::Settings, failure::Failure};

/// Prints what the running server's requests have cost since its start, or since an earlier snapshot.
pub(crate) fn slow(
    settings: &Settings,
    save: Option<&Path>,
    since: Option<&Path>,
    (sort, limit): (Sort, usize),
    as_json: bool,
) -> Result<ExitCode, Failure> {
    let earlier = since.map(kept::load).transpose()?;
    let now = ask(settings)?;
    if let Some(path) = save {
        kept::save(&now, path)?;
    }
    let mut shown = match &earlier {
        Some(earlier) => now.since(earlier),
        None => now.clone(),
    };
    sort.apply(&mut shown);
    let restarted = earlier
        .as_ref()
        .is_some_and(|earlier| earlier.started_us != now.started_us);
    if as_json {
        let object = object(&shown, earlier.as_ref(), restarted, limit);
        return print(&format!("{object}\n"));
    }
    let mut text = String::new();
    if restarted {
        text +=
            "the server was started again after the snapshot: these are all requests since then\n";
    }
    text += &table::page(&shown, earlier.as_ref(), limit);
    print(&text)
}

fn object(shown: &Snapshot, earlier: Option<&Snapshot>, restarted: bool, limit: usize) -> Value {
    let total: u64 = shown.shapes.iter().map(|shape| shape.total_ns).sum();
    let seconds = shown.seconds();
    let shapes = shown.shapes.iter().take(limit).map(|shape| {
        let before = earlier.and_then(|e| e.shapes.iter().find(|s| s.shape == shape.shape));
        let mut object = json!({
            "per_second": shape.calls as f64 / seconds.max(1e-6),
            "share": shape.total_ns as f64 / total.max(1) as f64,
        });
        let before = earlier.map(|_| ("before".to_owned(), before.map_or(Value::Null, figures)));
        if let (Value::Object(object), Value::Object(more)) = (&mut object, figures(shape)) {
            object.extend(more.into_iter().chain(before));
        }
        object
    });
    json!({
        "from_us": shown.started_us,
        "to_us": shown.taken_us,
        "restarted": restarted,
        "shapes": shapes.collect::<Vec<_>>(),
        "statements": shown.statements.iter().take(limit).collect::<Vec<_>>(),
        "repeats": shown.repeats,
        "nested": shown.nested,
    })
}

fn figures(shape: &ShapeFigures) -> Value {
    let us = |ns: u64| ns as f64 / 1000.0;
    let quantile = |share| us(shape.quantile_ns(share));
    let phases = phases(shape).map(|(name, ns)| (format!("{name}_us"), json!(us(ns))));
    json!({
        "shape": shape.shape,
        "calls": shape.calls,
        "failed": shape.failed,
        "cancelled": shape.cancelled,
        "total_us": us(shape.total_ns),
        "p50_us": quantile(0.5),
        "p95_us": quantile(0.95),
        "p99_us": quantile(0.99),
        "max_us": us(shape.max_ns),
        "phases": Value::Object(phases.into_iter().collect()),
        "examined": shape.examined,
        "returned": shape.returned,
        "examined_per_returned": shape.examined_per_returned(),
        "bytes": shape.bytes,
        "example": shape.example,
        "example_us": us(shape.example_ns),
    })
}
