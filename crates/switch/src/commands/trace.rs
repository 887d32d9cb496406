//! `tidegate/trace`, which `tidegate trace` uses: records the processing of some packets of the running
//! switch.

use super::Answer;
use super::flows::flow_filter;
use super::traced::{Form, Names, write};
use crate::Switch;
use crate::tracing::{Order, Origin, Traced};
use crate::worker_messages::WorkerCommand;
use base::Instant;
use datapath::Step;
use flow::{Field, Match, TraceId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A trace ends if its client makes no request for this long.
const WATCH: Duration = Duration::from_secs(5);
/// How long a packet may wait for the answer to its upcall.
const AWAY: Duration = Duration::from_secs(1);
/// Maximum number of packets of one trace.
const PACKETS_MAX: u32 = 10_000;

/// The running trace, if any.
#[derive(Debug, Default)]
pub struct Traces {
    running: Option<Running>,
    /// Number of traces so far.
    number: u32,
}

#[derive(Debug)]
struct Running {
    number: u32,
    order: Arc<Order>,
    form: Form,
    until: Instant,
    /// Packets that were not fetched yet.
    ready: Vec<Traced>,
    /// Reported packets and the start of their first steps.
    begun: HashMap<TraceId, Instant>,
    /// Of these, packets whose upcalls have not been answered yet.
    away: HashMap<TraceId, Instant>,
}

impl Traces {
    /// Returns the order for workers.
    pub fn order(&self) -> Option<Arc<Order>> {
        self.running.as_ref().map(|running| Arc::clone(&running.order))
    }

    /// Returns a line about the running trace.
    fn show(&self) -> String {
        match &self.running {
            Some(Running { number, order, begun, .. }) => {
                format!("trace {number}: {} of {} packets", begun.len(), order.wanted())
            }
            None => "no packets are traced".to_owned(),
        }
    }

    /// Adds a packet that a worker reported.
    pub fn add(&mut self, traced: Traced) {
        if let Some(running) = &mut self.running {
            running.ready.push(traced);
        }
    }
}

/// `tidegate/trace start text|json COUNT SAMPLE [FILTER]`, `next NUMBER`, `stop NUMBER`, `show`.
pub fn trace(switch: &mut Switch, words: &[String]) -> Answer {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["start", form, count, sample, filter @ ..] if filter.len() <= 1 => {
            let form = match *form {
                "json" => Form::Json,
                "text" => Form::Text,
                _ => return Err("say text or json behind start".to_owned()),
            };
            let count = number("count", count, PACKETS_MAX)?;
            let sample = number("sample", sample, u32::MAX)?;
            let filter = packet_filter(switch, filter.first().unwrap_or(&""))?;
            switch.start_trace(form, Order::new(filter, sample, count))
        }
        ["next", given] => switch.next_traced(number("trace", given, u32::MAX)?),
        ["stop", given] => {
            let given = number("trace", given, u32::MAX)?;
            if switch.traces.running.as_ref().is_some_and(|running| running.number == given) {
                switch.end_trace();
            }
            Ok(String::new())
        }
        ["show"] => Ok(switch.traces.show()),
        _ => {
            Err("say start text|json COUNT SAMPLE [FILTER], next NUMBER, stop NUMBER or show"
                .into())
        }
    }
}

fn number(what: &str, text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("{what} {text} is no number from 1 to {most}"))
}

/// Parses the filter, which applies to packets as they are received.
fn packet_filter(switch: &Switch, text: &str) -> Result<Match, String> {
    let filter = flow_filter(switch.devices(), text)?;
    let later = Field::ALL.iter().find(|&&field| {
        let is_later = field.is_ct()
            || field.is_pipeline()
            || matches!(field, Field::RecircId | Field::DpHash | Field::TunId);
        is_later && filter.mask().has(field)
    });
    match later {
        Some(field) => Err(format!(
            "no packet has {} when it comes in, and that is when packets are chosen; \
             choose by its headers and in_port",
            field.name()
        )),
        None => Ok(filter),
    }
}

impl Switch {
    fn start_trace(&mut self, form: Form, order: Order) -> Answer {
        let now = clock::now();
        if self.traces.running.as_ref().is_some_and(|running| now < running.until) {
            return Err("packets are traced for another client; try again when that is over".into());
        }
        self.traces.number += 1;
        let (number, order) = (self.traces.number, Arc::new(order));
        self.traces.running = Some(Running {
            number,
            order: Arc::clone(&order),
            form,
            until: now + WATCH,
            ready: Vec::new(),
            begun: HashMap::new(),
            away: HashMap::new(),
        });
        self.order_trace(Some(&order));
        Ok(number.to_string())
    }

    /// Returns `more` or `end`, and the packets since the last call.
    fn next_traced(&mut self, number: u32) -> Answer {
        let now = clock::now();
        let running = self.traces.running.as_mut().filter(|running| running.number == number);
        let Some(running) = running else { return Err(format!("trace {number} is over")) };
        running.until = now + WATCH;
        let (ready, form) = (std::mem::take(&mut running.ready), running.form);
        let mut lines = String::new();
        let mut told = Vec::new();
        for traced in ready {
            let since = running.note(&traced, now);
            told.push((traced, since));
        }
        running.away.retain(|_, since| now - *since < AWAY);
        let is_over = running.order.is_done()
            && running.begun.len() as u32 >= running.order.wanted()
            && running.away.is_empty();
        let device = |port| self.devices().get(port).map(|device| device.name.clone());
        for (traced, since) in &told {
            let names = Names { device: &device, worker: &self.worker_name(traced.worker) };
            write(&mut lines, form, traced, *since, names);
        }
        if is_over {
            self.end_trace();
        }
        Ok(format!("{}\n{lines}", if is_over { "end" } else { "more" }))
    }

    /// Returns the thread's name as in `dpif-netdev/pmd-stats-show`.
    fn worker_name(&self, id: base::WorkerId) -> String {
        let worker = self.workers().iter().find(|worker| worker.id == id);
        worker.map_or_else(String::new, |it| super::workers::heading(it).trim().replace(':', ""))
    }

    fn order_trace(&self, order: Option<&Arc<Order>>) {
        for worker in self.workers() {
            worker.send(WorkerCommand::Trace(order.cloned()));
        }
    }

    fn end_trace(&mut self) {
        self.traces.running = None;
        self.order_trace(None);
    }

    /// Ends the trace if its client makes no more requests.
    pub(crate) fn end_unwatched_trace(&mut self, now: Instant) {
        if self.traces.running.as_ref().is_some_and(|running| now >= running.until) {
            self.end_trace();
        }
    }
}

impl Running {
    /// Records the state of the packet. If its upcall was answered, returns the time since its first step.
    fn note(&mut self, traced: &Traced, now: Instant) -> Duration {
        let first = *self.begun.entry(traced.id).or_insert(traced.began);
        if traced.origin == Origin::Answered {
            self.away.remove(&traced.id);
        }
        let is_away =
            |(step, _): &(Step, u64)| matches!(step, Step::Missed { is_queued: true, .. });
        if traced.steps.iter().any(is_away) {
            self.away.insert(traced.id, now);
        }
        traced.began - first
    }
}
