//! Promises of the parts of `bench all`, and the verdict on a run of our server.
//!
//! Promise: a run that the machine disturbed misses nothing; its verdict names the disturbance. Not here: the parts (`parts`), and the
//! consequence of a missed promise (`all`).

use super::summary::Run;

/// One promise of a part.
struct PartPromise {
    words: &'static str,
    kept: fn(&Run) -> bool,
}

/// Verdict on a promise in a run.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PromiseVerdict {
    /// Verdict in a line.
    pub text: String,
    /// Not kept, and the machine is no excuse.
    pub missed: bool,
}

const NO_STALL: PartPromise = PartPromise { words: "no player stalls", kept: |run| run.stalled_streams == 0 };

const HERD: [PartPromise; 4] = [
    NO_STALL,
    PartPromise { words: "half of the first bytes come within 100 ms", kept: |run| run.first_byte_ms.p50 <= 100.0 },
    PartPromise {
        words: "viewers that are not refused have their first byte within 15 s",
        kept: |run| run.failed == 0 && run.first_byte_ms.max <= 15_000.0,
    },
    PartPromise {
        words: "refused viewers have their answer within a second",
        kept: |run| run.refusal_seconds_max.unwrap_or_default() <= 1.0,
    },
];
const SHARING: [PartPromise; 3] = [
    PartPromise {
        words: "195 viewers or more are admitted, and after their seeks as well",
        kept: |run| {
            let refused = run.habits.map_or(0, |habits| habits.refused_seeks);
            (run.admitted as u64).saturating_sub(run.failed as u64 + refused) >= 195
        },
    },
    NO_STALL,
    PartPromise { words: "J (1 s) is 0.1 % or less", kept: |run| run.j_1s.mean <= 0.1 },
];
const SOAK: [PartPromise; 2] = [
    PartPromise {
        words: "no tick misses its bytes",
        kept: |run| run.server_counts.is_some_and(|own| own.late_ticks == 0),
    },
    PartPromise { words: "no block is late", kept: |run| run.server_counts.is_some_and(|own| own.late_blocks == 0) },
];

/// The parts that promise something.
const PROMISES: [(&str, &[PartPromise]); 4] = [
    ("16-disk-herd", &HERD),
    ("17-disk-sharing", &SHARING),
    ("18-disk-sharing-seeks", &SHARING),
    ("31-disk-soak", &SOAK),
];

/// Promises of part `label`; none for most.
fn of(label: &str) -> &'static [PartPromise] {
    PROMISES.iter().find(|(part, _)| *part == label).map_or(&[], |(_, promises)| *promises)
}

/// Verdicts on `runs` of part `label` by its promises. The tries of a search, and other servers, promise nothing.
pub(super) fn verdicts(label: &str, runs: &[Run]) -> Vec<PromiseVerdict> {
    let ours = || runs.iter().filter(|run| run.server == "isocast" && !run.probe);
    let mut verdicts = Vec::new();
    for promise in of(label) {
        let words = promise.words;
        if ours().next().is_none() {
            verdicts.push(PromiseVerdict { text: format!("promise NOT met, there is no run: {words}"), missed: true });
        }
        for run in ours() {
            let is_disturbed = !run.disturbed.is_empty();
            let what = match ((promise.kept)(run), is_disturbed) {
                (true, false) => "met",
                (true, true) => "met, though disturbed",
                (false, false) => "NOT met",
                (false, true) => "not judged, the run was disturbed",
            };
            verdicts.push(PromiseVerdict { text: format!("promise {what}: {words}"), missed: what == "NOT met" });
        }
    }
    verdicts
}

#[cfg(test)]
mod tests {
    use super::super::client::habits::HabitFigures;
    use super::super::parts;
    use super::super::server_counts::ServerCounts;
    use super::super::summary::JitterSpread;
    use super::*;

    #[test]
    fn every_promise_is_one_of_a_part() {
        let parts = parts::of_set("full");
        assert!(PROMISES.iter().all(|(label, _)| parts.iter().any(|part| part.label == *label)));
    }

    #[test]
    fn a_promise_is_missed_by_an_undisturbed_run_of_ours_alone() {
        let run = |stalled_streams, disturbed: &[&str]| Run {
            server: "isocast".to_owned(),
            admitted: 200,
            stalled_streams,
            disturbed: disturbed.iter().map(ToString::to_string).collect(),
            ..Run::default()
        };
        let missed = |run: Run| -> Vec<bool> {
            verdicts("17-disk-sharing", &[run]).into_iter().map(|verdict| verdict.missed).collect()
        };
        assert_eq!(missed(run(0, &[])), [false; 3]);
        assert_eq!(missed(run(1, &[])), [false, true, false]);
        assert_eq!(missed(run(1, &["the client was late"])), [false; 3]);
        let habits = Some(HabitFigures { refused_seeks: 6, ..HabitFigures::default() });
        assert_eq!(missed(Run { habits, ..run(0, &[]) }), [true, false, false]);
        assert_eq!(missed(Run { failed: 6, ..run(0, &[]) }), [true, false, false]);
        let j_1s = JitterSpread { mean: 0.2, ..JitterSpread::default() };
        assert_eq!(missed(Run { j_1s, ..run(0, &[]) }), [false, false, true]);
        // Other servers, tries of searches and other parts promise nothing; where ours did not run, nothing was kept.
        let nginx = Run { server: "nginx".to_owned(), ..run(1, &[]) };
        assert!(verdicts("16-disk-herd", &[nginx.clone(), run(0, &[])]).iter().all(|verdict| !verdict.missed));
        assert!(verdicts("16-disk-herd", &[nginx]).iter().all(|verdict| verdict.missed));
        assert_eq!(verdicts("10-disk-8.8M", &[run(1, &[])]), []);
    }

    #[test]
    fn a_late_refusal_misses_the_promise_of_the_herd() {
        let missed = |refusal_seconds_max| {
            let run = Run { server: "isocast".to_owned(), refusal_seconds_max, ..Run::default() };
            verdicts("16-disk-herd", &[run]).into_iter().map(|v| v.missed).collect::<Vec<_>>()
        };
        assert_eq!(missed(None), [false; 4]);
        assert_eq!(missed(Some(0.1)), [false; 4]);
        assert_eq!(missed(Some(5.0)), [false, false, false, true]);
    }

    #[test]
    fn a_soak_is_judged_by_the_servers_own_counts() {
        let run = |server_counts| Run { server: "isocast".to_owned(), server_counts, ..Run::default() };
        let missed = |server_counts| {
            let probe = Run { probe: true, ..run(None) };
            verdicts("31-disk-soak", &[probe, run(server_counts)]).into_iter().map(|v| v.missed).collect::<Vec<_>>()
        };
        assert_eq!(missed(Some(ServerCounts::default())), [false, false]);
        assert_eq!(missed(Some(ServerCounts { late_blocks: 1, ..ServerCounts::default() })), [false, true]);
        assert_eq!(missed(None), [true, true]);
    }
}
