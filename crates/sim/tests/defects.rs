//! Each defect of the switch is detected by the law that it violates.

use sim::{Defect, Law, Plan, run_with, shrink};

const SEEDS: u64 = 60;

/// Returns the first seed whose run violates a law with this defect, and the law.
fn noticed(defect: Defect) -> Option<(u64, Law)> {
    (0..SEEDS).find_map(|seed| {
        let violation = run_with(&Plan::new(seed), Some(defect)).err()?;
        Some((seed, violation.law))
    })
}

#[test]
fn every_defect_breaks_a_law() {
    for defect in Defect::ALL {
        let Some((_, law)) = noticed(defect) else { panic!("{defect:?} is not noticed") };
        let laws: &[Law] = match defect {
            Defect::LosesChange => &[Law::Rules, Law::Flows],
            Defect::LosesUpcall => &[Law::Loss],
            Defect::SwapsPackets => &[Law::Order],
            Defect::LosesPage => &[Law::Statistics],
            Defect::LosesWake => &[Law::Sanity],
            Defect::LosesAnswer => &[Law::Loss, Law::Statistics, Law::Flows],
            Defect::LosesLastPages => &[Law::Statistics],
            Defect::ForgetsWaiting => &[Law::Loss, Law::Statistics],
            Defect::DelaysAnswers => {
                &[Law::Rules, Law::Flows, Law::Order, Law::Loss, Law::Statistics]
            }
        };
        assert!(laws.contains(&law), "{defect:?} breaks {law:?}");
    }
}

#[test]
fn a_failing_plan_shrinks_and_still_fails() {
    let defect = Some(Defect::SwapsPackets);
    let (seed, law) = noticed(Defect::SwapsPackets).expect("it is noticed");
    let plan = Plan::new(seed);
    let short = shrink(&plan, law, defect);
    assert!(short.steps.len() < 12, "{} steps of {}", short.steps.len(), plan.steps.len());
    assert_eq!(run_with(&short, defect).map_err(|it| it.law), Err(law));
}
