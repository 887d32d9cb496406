//! Defects of the switch, which the laws must detect.

/// A defect of a channel between two parts of the switch. It occurs at regular intervals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// A command that changes or deletes an installed flow is lost.
    LosesChange,
    /// An upcall is lost and not counted.
    LosesUpcall,
    /// Two packets to one port are swapped.
    SwapsPackets,
    /// A page of a dump is lost.
    LosesPage,
    /// The control side is not woken.
    LosesWake,
    /// The last command that answers a handler's misses is lost.
    LosesAnswer,
    /// A handler delivers its answers later than it records the flows.
    DelaysAnswers,
    /// What a stopped worker tells of its flows is lost.
    LosesLastPages,
    /// The upcalls that wait when handlers are stopped are neither answered nor counted.
    ForgetsWaiting,
}

impl Defect {
    /// All defects.
    pub const ALL: [Defect; 9] = [
        Defect::LosesChange,
        Defect::LosesUpcall,
        Defect::SwapsPackets,
        Defect::LosesPage,
        Defect::LosesWake,
        Defect::LosesAnswer,
        Defect::DelaysAnswers,
        Defect::LosesLastPages,
        Defect::ForgetsWaiting,
    ];
}

/// A defect that occurs every third time.
#[derive(Debug)]
pub struct Fault {
    defect: Option<Defect>,
    count: u32,
}

impl Fault {
    pub fn new(defect: Option<Defect>) -> Fault {
        Fault { defect, count: 0 }
    }

    /// Returns whether the defect occurs now.
    pub fn strikes(&mut self, defect: Defect) -> bool {
        if self.defect != Some(defect) {
            return false;
        }
        self.count += 1;
        self.count.is_multiple_of(3)
    }
}
