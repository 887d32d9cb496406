//! Recording of iterations, and when they are logged.

use super::*;

fn iteration(ns: u64, packets: u64) -> Sample {
    Sample { ns, busy_ns: if packets > 0 { ns } else { 0 }, packets, ..Sample::default() }
}

fn add(kept: &mut Kept, ms: u64, ns: u64, packets: u64) -> Vec<String> {
    let mut sizes = BatchSizes::default();
    let batches = u64::from(packets > 0);
    sizes.0[packets.min(32) as usize] = 1;
    kept.add(ms, Sample { batches, upcalls: packets / 10, ..iteration(ns, packets) }, &sizes)
}

#[test]
fn turns_fall_into_bins_and_milliseconds() {
    let mut kept = Kept::default();
    for (ms, ns, packets) in [(1, 400, 0), (1, 3000, 10), (2, 3000, 10), (3, 600, 0)] {
        assert!(add(&mut kept, ms, ns, packets).is_empty());
    }
    for (histogram, at, count) in [
        (&kept.cycles, 0, 1),
        (&kept.packets, 0, 2),
        (&kept.packets, 10, 2),
        (&kept.packets_per_batch, 10, 2),
        (&kept.packets_per_batch, 0, 0),
        (&kept.cycles_per_packet, 1, 2),
        (&kept.upcalls, 0, 2),
        (&kept.upcalls, 1, 2),
        (&kept.queue_fill, 0, 0),
    ] {
        assert_eq!(histogram.bins[at], count, "{histogram:?}");
    }
    let ms: Vec<_> = kept.milliseconds.iter().map(|ms| (ms.at, ms.iterations, ms.ns)).collect();
    assert_eq!(ms, [(1, 2, 3400), (2, 1, 3000)], "the third is not over");
    assert_eq!((kept.totals.iterations, kept.totals.packets, kept.totals.busy_ns), (3, 20, 6000));
    let iterations: Vec<_> =
        kept.iterations.iter().map(|iteration| (iteration.at, iteration.packets)).collect();
    assert_eq!(iterations, [(0, 0), (1, 10), (2, 10), (3, 0)]);
}

#[test]
fn a_thousand_of_each_are_kept() {
    let mut kept = Kept::default();
    (0..2500).for_each(|ms| drop(add(&mut kept, ms, 100, 1)));
    for (history, first) in [(&kept.iterations, 1500), (&kept.milliseconds, 1499)] {
        assert_eq!((history.len(), history[0].at), (HISTORY, first));
    }
    assert_eq!((kept.totals.iterations, kept.packets.bins[1]), (2499, 2500));
}

#[test]
fn long_turns_are_told_of_with_those_around_them() {
    let long = 300_000;
    let check = |settings: LogSettings, iterations: &[u64], expect: &[(usize, &str)]| {
        let mut kept = Kept { log: settings, ..Kept::default() };
        let mut told = Vec::new();
        for (i, &ns) in iterations.iter().enumerate() {
            told.extend(add(&mut kept, 1, ns, 1).into_iter().map(|line| (i, line)));
        }
        let begins = |(at, line): &(usize, String), (i, start): &(usize, &str)| {
            at == i && line.starts_with(start)
        };
        assert_eq!(told.len(), expect.len(), "{told:?}");
        let all = told.iter().zip(expect).all(|(told, expect)| begins(told, expect));
        assert!(all, "{told:?}");
        told.pop().map(|(_, line)| line.lines().count())
    };
    let settings = LogSettings { is_on: true, before: 2, after: 1, ..LogSettings::default() };
    let first = "Suspicious iteration (Excessive total cycles): iter=3 duration=300 us";
    let around = "Neighborhood of suspicious iteration:";
    let iterations = [1, 1, 1, long, 1, 1, 1];
    let lines = check(settings, &iterations, &[(4, first), (4, around)]);
    assert_eq!(lines, Some(2 + 4), "two before, itself, one after");
    check(LogSettings::default(), &iterations, &[]);
    check(LogSettings { longest_us: 300, ..settings }, &iterations, &[]);
    // No iteration precedes the first one.
    let earliest = "Suspicious iteration (Excessive total cycles): iter=0 duration=300 us";
    assert_eq!(check(settings, &[long, 1], &[(1, earliest), (1, around)]), Some(2 + 2));
    // Another suspicious iteration in the logged range: logged separately, or extending the range.
    let iterations = [1, 1, 1, long, long, 1];
    let second = "Suspicious iteration (Excessive total cycles): iter=4 duration=300 us";
    check(settings, &iterations, &[(4, first), (4, around)]);
    let extends = LogSettings { extends: true, ..settings };
    let lines = check(extends, &iterations, &[(4, first), (5, second), (5, around)]);
    assert_eq!(lines, Some(2 + 5));
}

#[test]
fn columns_are_open_vswitch_s() {
    let mut kept = Kept::default();
    for (ms, ns, packets) in [(1, 400, 0), (1, 3000, 10), (2, 600, 0)] {
        add(&mut kept, ms, ns, packets);
    }
    let mut text = String::new();
    write_histograms(&mut text, &kept);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let heading = "   cycles/it              packets/it             cycles/pkt             \
                   pkts/batch             max vhost qlen         upcalls/it             cycles/upcall";
    assert_eq!(lines[..2], ["Histograms", heading]);
    assert_eq!(lines.len(), 2 + 32 + 3);
    let first = lines[2].split_whitespace().collect::<Vec<_>>();
    assert_eq!(first[..4], [&kept.cycles.walls[0].to_string(), "1", "0", "2"]);
    assert_eq!(lines[33].split_whitespace().step_by(2).collect::<Vec<_>>(), [">"; 7]);
    let means = lines[36].split_whitespace().collect::<Vec<_>>();
    assert_eq!(means, ["1700", "5.00000", "300", "10.00000", "0.00000", "0.50000", "0"]);

    let mut text = String::new();
    write_iterations(&mut text, &kept, 2);
    let expect = "\
\x20  iter                cycles       packets      cycles/pkt   pkts/batch   vhost qlen   \
upcalls      cycles/upcall
   2                   600          0            0            0            0            \
0            0
   1                   3000         10           300          10           0            \
1            0
";
    let trimmed =
        |text: &str| text.lines().map(|it| it.trim_end().to_owned() + "\n").collect::<String>();
    assert_eq!(trimmed(&text), expect);
    let mut text = String::new();
    write_milliseconds(&mut text, &kept, 9);
    let expect = "\
\x20  ms             iterations   cycles/it    Kpps         cycles/pkt   pkts/batch   vhost qlen   \
upcalls      cycles/upcall
   1              2            1700         10           300          10           0            \
1            0
";
    assert_eq!(trimmed(&text), expect);
    let mut text = String::new();
    write_iterations(&mut text, &kept, 0);
    write_milliseconds(&mut text, &kept, 0);
    assert_eq!(text, "");
}
