//! Faults of the switch itself, which the laws must notice.

/// What a channel between two parts of the switch does wrong, once in so many times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Defect {
    /// A command that changes or deletes an installed flow is lost.
    LosesChange,
    /// An upcall is lost and not counted.
    LosesUpcall,
    /// Two packets to one port change places.
    SwapsPackets,
    /// A page of a dump is lost.
    LosesPage,
    /// The control side is not woken.
    LosesWake,
    /// The last command that answers a handler's misses is lost.
    LosesAnswer,
    /// A handler hands its answers on later than it writes down the flows.
    DelaysAnswers,
}

impl Defect {
    /// All of them.
    pub const ALL: [Defect; 7] = [
        Defect::LosesChange,
        Defect::LosesUpcall,
        Defect::SwapsPackets,
        Defect::LosesPage,
        Defect::LosesWake,
        Defect::LosesAnswer,
        Defect::DelaysAnswers,
    ];
}

/// A defect that strikes every third time.
#[derive(Debug)]
pub struct Fault {
    defect: Option<Defect>,
    count: u32,
}

impl Fault {
    pub fn new(defect: Option<Defect>) -> Fault {
        Fault { defect, count: 0 }
    }

    /// Whether this goes wrong now.
    pub fn strikes(&mut self, defect: Defect) -> bool {
        if self.defect != Some(defect) {
            return false;
        }
        self.count += 1;
        self.count.is_multiple_of(3)
    }
}
