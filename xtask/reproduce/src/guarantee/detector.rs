//! Detectors: how long they wait without reason, how soon they notice a change, and when their alarms end.

use fairstream_guarantee::{EProcess, ErrorControl, Hypothesis, StepUnit};
use fairstream_scenarios::Random;

use super::bounds::nats;
use super::rules::{LEVEL, Watch};
use super::simulate::{Times, all, first_alarms};
use super::systems::{System, TOLERANCE};
use crate::page::{grouped, percent, table};

/// `guarantee = { false_alarm_every = TRIALS }`.
fn detector(trials: f64, memory: Option<u64>) -> Hypothesis {
    let control = ErrorControl::Detector { step: StepUnit::Block, memory };
    Hypothesis::new(TOLERANCE, control, control.default_block() as f64 / trials)
}

/// Systems that are fair for long and then are not.
pub(super) fn changes(runs: u64) -> String {
    const CHANGE: u64 = 20_000;
    let mut five = vec![0.5; 5];
    five[0] = 0.2;
    let mut rows = Vec::new();
    for after in [vec![0.5, 0.2], vec![0.5, 0.35], five] {
        let name = match after.len() {
            2 => format!("0.5, 0.5, then {}, {}", after[0], after[1]),
            groups => format!("{groups} groups at 0.5, then one at 0.2"),
        };
        let share = 1.0 / after.len() as f64;
        let groups: Vec<(f64, f64)> = after.iter().map(|rate| (share, *rate)).collect();
        // About what a CUSUM test needs that knows both systems and has the threshold of the promise.
        let least = 1_000_000.0_f64.ln() / nats(TOLERANCE, &groups);
        let system = System::changed("", CHANGE, vec![0.5; after.len()], after);
        let forms = [
            ("`false_alarm_every = 1000000`", detector(1e6, None)),
            ("the same, `memory = 1000`", detector(1e6, Some(1000))),
            ("`false_alarms = 0.05`", Hypothesis::new(TOLERANCE, ErrorControl::Ever, LEVEL)),
        ];
        for (form, hypothesis) in forms {
            let alarms = first_alarms(|| Watch::block(hypothesis), &system, runs, CHANGE + 60_000);
            let early = alarms.0.iter().filter(|alarm| **alarm <= CHANGE).count() as f64;
            let late = alarms.after(CHANGE);
            rows.push(vec![
                name.clone(),
                form.to_owned(),
                grouped(least as u64),
                late.by(0.5),
                late.by(0.95),
                percent(early / alarms.0.len().max(1) as f64),
            ]);
        }
    }
    let head = ["system", "guarantee", "ln(10⁶) / information", "median", "95 %", "alarms before"];
    format!(
        "\nSystems that are fair for {} decisions and then are not, {} runs each: decisions from the change to the alarm.\n\n{}",
        grouped(CHANGE),
        grouped(runs),
        table(&head, rows)
    )
}

/// How long a detector waits until a false alarm.
pub(super) fn waits(runs: u64) -> String {
    const PROMISE: f64 = 10_000.0;
    const MOST: u64 = 200_000;
    let systems = [
        System::even("edge: 0.5, 0.4", TOLERANCE, &[0.5, 0.4]),
        System::even("edge, three groups: 0.5, 0.45, 0.4", TOLERANCE, &[0.5, 0.45, 0.4]),
        System::even("equal: 0.5, 0.5", TOLERANCE, &[0.5, 0.5]),
    ];
    let rows = systems.map(|system| {
        let alarms = first_alarms(|| Watch::block(detector(PROMISE, None)), &system, runs, MOST);
        let waited: u64 = alarms.0.iter().map(|alarm| (*alarm).min(MOST)).sum();
        let mean = waited as f64 / alarms.0.len().max(1) as f64;
        vec![system.name, format!("{:.1} × the promise or more", mean / PROMISE), percent(alarms.share())]
    });
    let head = ["fair system", "mean decisions until the first alarm", "runs with an alarm"];
    format!(
        "\nA detector that promises an alarm of a fair system in {} decisions on average, {} runs of up to {} decisions:\n\n{}",
        grouped(PROMISE as u64),
        grouped(runs),
        grouped(MOST),
        table(&head, rows)
    )
}

/// When the alarms of a detector end.
pub(super) fn endings(runs: u64) -> String {
    const LONG: u64 = 200_000;
    const AGAIN: u64 = 40_000;
    let hypothesis = detector(100_000.0, None);
    let mut rows = Vec::new();
    for (name, unfair, fair, again, decisions) in [
        ("0.5, 0.35 for ever", [0.5, 0.35], [0.5, 0.35], LONG, LONG),
        ("0.5, 0.38 for ever", [0.5, 0.38], [0.5, 0.38], LONG, LONG),
        ("0.5, 0.35, then 0.5, 0.5", [0.5, 0.35], [0.5, 0.5], AGAIN, 2 * AGAIN),
        ("0.5, 0.2, then 0.5, 0.5", [0.5, 0.2], [0.5, 0.5], AGAIN, 2 * AGAIN),
        ("0.5, 0.2, then 0.5, 0.45", [0.5, 0.2], [0.5, 0.45], AGAIN, 4 * AGAIN),
    ] {
        let system = System::changed("", again, unfair.to_vec(), fair.to_vec());
        let run = |seed: u64| {
            let (mut random, mut decide, mut e_process) =
                (Random::new(seed), (system.begin)(), EProcess::default());
            let (mut stands, mut wrong, mut ended) = (false, 0, u64::MAX);
            for number in 0..decisions {
                let decision = decide(&mut random, number);
                e_process.count(&hypothesis, decision.group, decision.value, decision.time);
                if !e_process.look() {
                    continue;
                }
                if !stands && e_process.exceeds_threshold(&hypothesis) {
                    stands = true;
                    if let Some(leading) = e_process.leading(&hypothesis, &[0, 1]) {
                        e_process.await_recovery(leading.groups);
                    }
                } else if stands && e_process.has_recovered() {
                    stands = false;
                    e_process.restart();
                    if number < again {
                        wrong += 1;
                    } else if ended == u64::MAX {
                        ended = number - again;
                    }
                }
            }
            (wrong, ended)
        };
        let (wrong, mut ended): (Vec<u64>, Vec<u64>) = all(runs, run).into_iter().unzip();
        ended.sort_unstable();
        let wrong = wrong.iter().sum::<u64>() as f64 / runs.max(1) as f64;
        let when = if again < decisions { Times(ended).by(0.5) } else { "-".to_owned() };
        rows.push(vec![name.to_owned(), format!("{wrong:.2}"), when]);
    }
    let head = ["system, ε = 0.1", "wrong endings in a run", "median decisions from the change to the end"];
    format!("\nWhen the alarms of a detector end, {} runs each:\n\n{}", grouped(runs), table(&head, rows))
}
