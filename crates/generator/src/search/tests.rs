use super::*;
use crate::statistics::Failures;

const STRICT: Allowance = Allowance { loss: 0.0, shortfall: Allowance::SHORTFALL };

/// A trial without any fault, with 7 packets per connection and one second long.
fn clean(rate: u64) -> Sample {
    let packets = Direction { sent: rate * 7 / 2, received: rate * 7 / 2 };
    let window = Window {
        seconds: 1.0,
        opened: rate,
        completed: rate,
        active: rate / 2,
        ..Window::default()
    };
    Sample {
        offered: rate as f64,
        window,
        opened: rate,
        completed: rate,
        forth: packets,
        back: packets,
        table_before: Some(0),
        ..Sample::default()
    }
}

type Case = (&'static str, fn(&mut Sample), f64, &'static str, &'static str);

#[test]
fn verdicts() {
    let cases: &[Case] = &[
        ("nothing wrong", |_| (), 0.0, "pass", ""),
        // The original script's first false pass: it requested 55,000 and got 32,800.
        (
            "far behind",
            |s| {
                s.offered = 55_000.0;
                s.window.opened = 32_800;
                s.window.completed = 32_800;
                (s.opened, s.completed, s.missed) = (32_800, 32_800, 22_200);
            },
            0.0,
            "invalid",
            "32800 connections per second of the 55000",
        ),
        // Its second: 1,300 of 21,000, and three times as many packets received as sent.
        (
            "replays",
            |s| {
                s.offered = 21_000.0;
                (s.window.opened, s.window.completed, s.opened, s.completed) =
                    (1300, 1300, 1300, 1300);
                s.forth = Direction { sent: 4550, received: 13_650 };
                s.back = Direction { sent: 4550, received: 13_650 };
            },
            0.0,
            "invalid",
            "packets twice",
        ),
        (
            // Connections live longer than they should.
            "too late for messages",
            |s| (s.pauses, s.pauses_overrun, s.window.completed) = (10_000, 301, s.opened * 9 / 10),
            0.0,
            "invalid",
            "too late for 301 messages ~ 3.01%",
        ),
        ("hardly", |s| (s.pauses, s.pauses_overrun) = (10_000, 299), 0.0, "pass", ""),
        ("one packet lost", |s| s.back.received -= 1, 0.0, "fail", "server to client: 1 of"),
        ("one lost, allowed", |s| s.back.received -= 1, 0.001, "pass", ""),
        (
            // Queues hold the packets of a short stall, but not of a long one.
            "lost while the generator looked away",
            |s| {
                s.back.received -= 1;
                s.stall_ns = 100_000_000;
            },
            0.0,
            "invalid",
            "for 100.0 ms",
        ),
        (
            "lost, and the generator looked away for less than queues hold",
            |s| {
                s.back.received -= 1;
                s.stall_ns = 20_000_000;
            },
            0.0,
            "fail",
            "server to client: 1 of",
        ),
        (
            "lost, and the generator looked away for longer than a small ring holds",
            |s| {
                s.back.received -= 1;
                (s.stall_ns, s.queue_packets) = (20_000_000, Some(512));
            },
            0.0,
            "invalid",
            "for 20.0 ms",
        ),
        ("looked away, nothing lost", |s| s.stall_ns = 1 << 40, 0.0, "pass", ""),
        (
            // Duplicates in one direction do not hide losses in the other.
            "lost here, doubled there",
            |s| {
                s.forth.received -= 100;
                s.back.received += 100;
            },
            0.0,
            "invalid",
            "arrived of",
        ),
        (
            "failed connections without packet loss",
            |s| {
                s.completed -= 30;
                s.failed = Failures { refused: 30, ..Failures::default() };
            },
            0.001,
            "fail",
            "connections refused: 30",
        ),
        ("connections that vanish", |s| s.completed -= 5, 0.5, "fail", "do not add up: 5"),
        (
            "connections that hang",
            |s| {
                s.completed -= 50;
                s.unfinished = 50;
            },
            0.0,
            "fail",
            "did not end: 50",
        ),
        ("the table is full", |s| s.table_full = 9, 1.0, "fail", "table full: 9"),
        ("left-overs", |s| s.table_before = Some(3), 0.0, "invalid", "3 connections of an earlier"),
        ("the table cannot be seen", |s| s.table_before = None, 0.0, "pass", ""),
        ("no free tuples", |s| s.tuples_exhausted = 1, 0.0, "invalid", "widen the ranges"),
        ("the generator's server is full", |s| s.server_full = 1, 0.0, "invalid", "full server"),
        ("the generator's port", |s| s.port_errors = 1, 0.0, "invalid", "own ports"),
        (
            "too many at once",
            |s| {
                s.at_limit = 100;
                s.window.opened -= 100;
                (s.opened, s.completed) = (s.opened - 100, s.completed - 100);
            },
            0.0,
            "invalid",
            "raise --max-flows",
        ),
        (
            // The device swallows SYNs, so connections pile up: the device is the cause.
            "too many at once, of a device that answers too little",
            |s| {
                s.at_limit = 500;
                s.window.opened -= 500;
                s.opened -= 500;
                s.completed -= 700;
                s.failed.timed_out_opening = 200;
                s.forth.received -= 1000;
            },
            0.0,
            "fail",
            "timed out opening: 200",
        ),
        ("ended early", |s| s.ended_early = true, 1.0, "fail", "on their way than queues hold"),
        ("slower than opened", |s| s.window.completed /= 2, 0.0, "fail", "completed of"),
        (
            "nothing forwarded",
            |s| (s.forth.received, s.back, s.completed) = (0, Direction::default(), 0),
            0.0,
            "invalid",
            "forwards nothing",
        ),
        ("garbage", |s| s.garbage = s.forth.sent + s.back.sent, 0.0, "invalid", "garbage"),
        ("wrong side", |s| s.client_returned = s.forth.sent, 0.0, "invalid", "same side|the side"),
    ];
    for (name, change, loss, word, expected) in cases {
        let mut sample = clean(10_000);
        change(&mut sample);
        let verdict = judge(&sample, &Allowance { loss: *loss, ..STRICT });
        let said: Vec<_> = verdict.reasons().iter().map(Reason::to_string).collect();
        assert_eq!(verdict.word(), *word, "{name}: {said:?}");
        let said = said.join("; ");
        assert!(expected.split('|').any(|part| said.contains(part)), "{name}: {said}");
    }
}

/// Searches a device that carries up to `real`. Returns the answer and the rates tried.
fn search(search: &mut dyn Search, verdict: impl Fn(f64, usize) -> Verdict) -> (Answer, Vec<f64>) {
    let mut tried = Vec::new();
    while let Next::Trial { rate, .. } = search.next() {
        let verdict = verdict(rate, tried.len());
        tried.push(rate);
        search.record(&verdict, if verdict.passed() { 0.0 } else { 0.3 });
        assert!(tried.len() < 500, "it never ends: {tried:?}");
    }
    (search.answer(), tried)
}

const RANGE: Range = Range { min: 10_000.0, max: 500_000.0 };
const PRECISE: Precision = Precision { relative: 0.01, max_iterations: None, loss: 0.0 };

fn fail() -> Verdict {
    Verdict::Fail(vec![Reason::TableFull(1)])
}

fn invalid() -> Verdict {
    Verdict::Invalid(vec![Reason::PortErrors(1)])
}

#[test]
fn the_answer_is_within_precision_and_confirmed() {
    for real in [10_000.0, 12_345.0, 100_000.0, 499_000.0] {
        let carries = |rate, _| if rate <= real { Verdict::Pass } else { fail() };
        let (answer, tried) = search(&mut Confirmed::new(RANGE, PRECISE), carries);
        let rate = answer.rate.unwrap();
        assert!(rate <= real && rate >= real * 0.985, "{real}: {rate} after {tried:?}");
        assert!(answer.certainty.confirmed && answer.certainty.passed >= 2, "{answer:?}");
        assert_eq!(tried.last(), Some(&rate));
        assert!(answer.upper.unwrap() > real && !answer.stopped_by_generator);
    }
}

#[test]
fn ends_of_the_range_are_tried_and_not_assumed() {
    let (answer, tried) = search(&mut Confirmed::new(RANGE, PRECISE), |_, _| fail());
    assert_eq!((answer.rate, tried.last()), (None, Some(&RANGE.min)));
    assert_eq!(answer.ending, Ending::Found);
    let (answer, tried) = search(&mut Confirmed::new(RANGE, PRECISE), |_, _| Verdict::Pass);
    assert_eq!((answer.rate, answer.upper), (Some(RANGE.max), None));
    assert!(answer.certainty.confirmed, "{tried:?}");
    assert_eq!(answer.ending, Ending::Range);
    let mut bisect = Bisect::new(RANGE, Some(20), 0.0);
    assert_eq!(search(&mut bisect, |_, _| Verdict::Pass).0.ending, Ending::Range);
}

#[test]
fn an_answer_that_does_not_hold_is_withdrawn() {
    // The device passes once by chance at 100,000 and above; it really carries 80,000.
    let lucky = std::cell::Cell::new(true);
    let carries = |rate, _| {
        if rate <= 80_000.0 || (rate <= 130_000.0 && lucky.replace(false)) {
            Verdict::Pass
        } else {
            fail()
        }
    };
    let (answer, _) = search(&mut Confirmed::new(RANGE, PRECISE), carries);
    assert!((78_000.0..=80_000.0).contains(&answer.rate.unwrap()), "{answer:?}");
    // A single failure at the boundary does not decide.
    let carries = |rate: f64, n: usize| {
        if rate <= 100_000.0 && n % 7 != 6 { Verdict::Pass } else { fail() }
    };
    let (answer, _) = search(&mut Confirmed::new(RANGE, PRECISE), carries);
    assert!(answer.rate.unwrap() > 20_000.0, "{answer:?}");
}

#[test]
fn what_the_generator_cannot_do_is_said() {
    let limited = |rate, _| if rate <= 200_000.0 { Verdict::Pass } else { invalid() };
    let (answer, _) = search(&mut Confirmed::new(RANGE, PRECISE), limited);
    assert!(answer.stopped_by_generator && answer.rate.unwrap() > 195_000.0, "{answer:?}");
    assert_eq!(answer.ending, Ending::Found);
    // One invalid trial says nothing.
    let hiccup = |rate, n| match (n, rate) {
        (0, _) => invalid(),
        (_, rate) if rate <= 400_000.0 => Verdict::Pass,
        _ => fail(),
    };
    let (answer, _) = search(&mut Confirmed::new(RANGE, PRECISE), hiccup);
    assert!(!answer.stopped_by_generator && answer.rate.unwrap() > 390_000.0, "{answer:?}");
}

#[test]
fn a_generator_that_was_held_up_is_asked_again() {
    let stalled = || Verdict::Invalid(vec![Reason::Stalled { ms: 5.0 }]);
    // Three trials of four are invalid; the fourth decides.
    let now_and_then = |rate, n: usize| match n % 4 {
        3 if rate <= 200_000.0 => Verdict::Pass,
        3 => fail(),
        _ => stalled(),
    };
    let (answer, tried) = search(&mut Confirmed::new(RANGE, PRECISE), now_and_then);
    let rate = answer.rate.unwrap();
    assert!((195_000.0..=200_000.0).contains(&rate), "{rate} after {tried:?}");
    assert!(answer.certainty.confirmed && !answer.stopped_by_generator);
    // A generator that always stalls cannot measure, and the search ends.
    let (answer, _) = search(&mut Confirmed::new(RANGE, PRECISE), |_, _| stalled());
    assert!(answer.rate.is_none() && answer.stopped_by_generator, "{answer:?}");
    // Other invalid trials are no stalls.
    assert!(!invalid().is_stalled() && !fail().is_stalled() && !Verdict::Pass.is_stalled());
}

#[test]
fn an_invalid_confirming_run_is_run_again_once() {
    // Near the boundary two trials decide; a third at the highest rate confirms it.
    for (hiccups, confirmed) in [(0, true), (1, true), (2, false)] {
        let seen = std::cell::Cell::new(0);
        let said = |rate, _| {
            seen.set(seen.get() + u32::from(rate >= RANGE.max));
            let confirming = (3..3 + hiccups).contains(&seen.get()) && rate >= RANGE.max;
            if confirming { invalid() } else { Verdict::Pass }
        };
        let (answer, _) = search(&mut Confirmed::new(RANGE, PRECISE), said);
        assert_eq!(answer.rate == Some(RANGE.max), confirmed, "{hiccups}: {answer:?}");
        assert!(answer.certainty.confirmed);
    }
}

#[test]
fn iterations_end_it_with_what_is_known() {
    let carries = |rate, _| if rate <= 100_000.0 { Verdict::Pass } else { fail() };
    for most in 1..8 {
        let precision = Precision { max_iterations: Some(most), ..PRECISE };
        let (answer, tried) = search(&mut Confirmed::new(RANGE, precision), carries);
        assert_eq!((tried.len() as u32, answer.ending), (most, Ending::Iterations), "{tried:?}");
        let mut bisect = Bisect::new(RANGE, Some(most), 0.0);
        let (answer, tried) = search(&mut bisect, carries);
        assert_eq!((tried.len() as u32, answer.ending), (most, Ending::Iterations), "{tried:?}");
    }
}

#[test]
fn no_search_makes_more_trials_than_it_may() {
    // Near the boundary each rate is tried twice, and an invalid trial is repeated.
    let near = |rate, _| if rate <= 400_000.0 { Verdict::Pass } else { fail() };
    let late = |_, n: usize| if n.is_multiple_of(2) { invalid() } else { Verdict::Pass };
    let stalled = |_, _| Verdict::Invalid(vec![Reason::Stalled { ms: 5.0 }]);
    let narrow = Range { min: 390_000.0, max: 410_000.0 };
    let said: [&dyn Fn(f64, usize) -> Verdict; 4] = [&near, &late, &stalled, &|_, _| fail()];
    for (kind, said) in said.into_iter().enumerate() {
        for (most, range) in (1..12).flat_map(|most| [(most, RANGE), (most, narrow)]) {
            let precision = Precision { max_iterations: Some(most), ..PRECISE };
            let mut confirmed = Confirmed::new(range, precision);
            let (answer, tried) = search(&mut confirmed, said);
            assert!(tried.len() as u32 <= most, "{kind}, {most}: {tried:?}");
            assert_ne!(answer.ending, Ending::Unfinished);
        }
    }
    // A rate that passed every time it was tried stands, even if that was once.
    let precision = Precision { max_iterations: Some(1), ..PRECISE };
    let (answer, _) = search(&mut Confirmed::new(narrow, precision), near);
    assert_eq!((answer.rate, answer.certainty.confirmed), (Some(400_000.0), false));
}

#[test]
fn bisect_goes_the_original_s_way() {
    let verdicts = [false, true, true, false, true, false, false, true];
    let said = |_, n: usize| if verdicts[n] { Verdict::Pass } else { fail() };
    let range = Range { min: 1000.0, max: 100_000.0 };
    let (answer, tried) = search(&mut Bisect::new(range, Some(8), 0.0), said);
    // The original script's published run.
    let published = [50.5, 25.8, 38.1, 44.3, 41.2, 42.8, 42.0, 41.6];
    for (rate, expected) in tried.iter().zip(published) {
        assert!((rate / 1000.0 - expected).abs() < 0.051, "{tried:?}");
    }
    assert_eq!(answer.rate, tried.last().copied());
    // The adaptive window lets the search leave a range that is too small.
    let (answer, _) = search(&mut Bisect::new(range, Some(40), 10.0), |_, _| Verdict::Pass);
    assert!(answer.rate.unwrap() > 110_000.0, "{answer:?}");
}

#[test]
fn several_loss_ratios_in_one_search() {
    // No loss up to 100,000, and a growing share above.
    let loss = |rate: f64| ((rate - 100_000.0) / 2_000_000.0).max(0.0);
    let goal = |loss_ratio| Goal { loss_ratio, exceed_ratio: 0.5, trials: 3, width: 0.01 };
    let mut search = MultiLoss::new(RANGE, vec![goal(0.0), goal(0.005)], None);
    let mut trials = 0;
    while let Next::Trial { rate, .. } = search.next() {
        let lost = Reason::Lost { way: "there", lost: 1, sent: 2 };
        let verdict = if loss(rate) > 0.0 { Verdict::Fail(vec![lost]) } else { Verdict::Pass };
        search.record(&verdict, loss(rate));
        trials += 1;
        assert!(trials < 100);
    }
    let results = search.results();
    for (result, real) in results.iter().zip([100_000.0, 110_000.0]) {
        let (lower, upper) = (result.lower.unwrap(), result.upper.unwrap());
        assert!(lower <= real && upper > real && upper - lower <= 0.01 * upper, "{result:?}");
        let through = result.conditional_throughput.unwrap();
        assert!((through - lower * (1.0 - loss(lower))).abs() < 1.0);
    }
    assert_eq!(search.answer().rate, results[0].lower);
    // Two of three decide: one bad trial among three does not.
    let one = goal(0.0);
    for (losses, class) in [
        (vec![0.0], super::multi_loss::tests_class(&one, &[0.0])),
        (vec![0.0, 0.0], super::multi_loss::tests_class(&one, &[0.0, 0.0])),
    ] {
        assert_eq!(class, if losses.len() == 2 { "Lower" } else { "Undecided" });
    }
    assert_eq!(super::multi_loss::tests_class(&one, &[0.1, 0.0, 0.1]), "Upper");
    assert_eq!(super::multi_loss::tests_class(&one, &[0.1, 0.0, 0.0]), "Lower");
}

#[test]
fn conditional_throughput_is_the_draft_s_quantile() {
    let goal = |exceed_ratio, trials| Goal { loss_ratio: 0.01, exceed_ratio, trials, width: 0.01 };
    let cases: &[(f64, u32, &[f64], f64)] = &[
        // Of three trials, two decide: the worse of them counts.
        (0.5, 3, &[0.0, 0.004], 996.0),
        (0.5, 3, &[0.004, 0.0, 0.2], 996.0),
        (0.5, 4, &[0.1, 0.002, 0.0, 0.3], 998.0),
        // No trial may exceed the loss: the worst of all counts.
        (0.0, 2, &[0.001, 0.003], 997.0),
        (0.0, 1, &[0.0], 1000.0),
        // Too few trials to decide.
        (0.5, 5, &[0.0], 0.0),
    ];
    for (exceed_ratio, trials, losses, expected) in cases {
        let got = super::multi_loss::tests_throughput(&goal(*exceed_ratio, *trials), losses);
        assert!((got - expected).abs() < 1e-9, "{losses:?}: {got}");
    }
}
