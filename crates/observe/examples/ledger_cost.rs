//! What measuring one request costs, in nanoseconds: finding its shape, and adding its figures.
//!
//! `cargo run --release -p hikyaku-observe --example ledger_cost`

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use hikyaku_observe::{Cost, FilterShape, Observations, Phase, Shape, Statements};

const ROUNDS: u32 = 2_000_000;

fn time(what: &str, mut work: impl FnMut(u32)) {
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let begun = Instant::now();
        (0..ROUNDS).for_each(&mut work);
        let each = begun.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS);
        best = best.min(each);
    }
    println!("{what:44} {best:6.1} ns");
}

fn main() {
    let (_observations, ledgers) = Observations::new(1, 0, 7);
    let Some(ledger) = ledgers.first() else {
        return;
    };
    let shape = |n: u32| {
        let filter = FilterShape::default()
            .authors(300)
            .kinds(1 + n as usize % 5)
            .limit(u64::from(n % 700));
        Shape::Req(std::iter::once(filter).collect())
    };
    let mut cost = Cost::new(Duration::from_micros(30));
    cost.spend(Phase::Query, Duration::from_micros(20));
    time("a REQ's shape, its figures", |n| {
        let id = ledger.id(&shape(black_box(n)));
        ledger.record(id, &cost, None, || None);
    });
    time("an event's shape, its figures", |_| {
        let shape = Shape::Event {
            outcome: black_box("stored"),
            class: "regular",
        };
        ledger.record(ledger.id(&shape), &cost, None, || None);
    });
    let kept = ledger.id(&Shape::Table {
        table: "seen".into(),
        command: "get",
    });
    time("figures of a shape that is known", |_| {
        ledger.record(black_box(kept), &cost, None, || None);
    });
    let mut record = None;
    time("a poll within a record that stays empty", |n| {
        black_box(Statements::within(&mut record, || black_box(n)));
    });
    time("reading the clock", |_| {
        black_box(Instant::now());
    });
}
