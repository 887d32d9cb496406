//! The cost of setting up a flow, for the worker that sends the upcall and the handler that answers it.
//!
//! `cargo run --release -p load --example setup -- COUNT` prints nanoseconds of processor time per flow,
//! separately for worker and handler. With the further argument `untimed` it reads no clock, so that
//! callgrind can count the instructions of each part.

use base::{Instant, WorkerId};
use conntrack::{Config, Conntrack};
use datapath::Answers;
use load::in_memory::{Cable, Discard, Switch};
use packet::{Batch, Pool};
use port::{PortError, RxQueue};
use std::error::Error;
use std::net::Ipv4Addr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use switch::latency::{self, Recorder};
use wire::builder::PacketBuilder;

/// 20 rules; each packet needs a flow of its own.
fn rules() -> String {
    let exact = "priority=200,udp,in_port=p0,actions=move:NXM_OF_IP_SRC[]->NXM_NX_REG0[],\
                 move:NXM_OF_UDP_SRC[]->NXM_NX_REG1[0..15],output:p1\n";
    let others =
        (0..19).map(|n| format!("priority={},tcp,tp_dst={},actions=drop\n", 100 + n, 8000 + n));
    std::iter::once(exact.to_owned()).chain(others).collect()
}

/// Packets of a new connection each.
struct NewFlows {
    frame: Vec<u8>,
    next: u32,
}

impl RxQueue for NewFlows {
    fn receive(&mut self, pool: &mut Pool, batch: &mut Batch) -> Result<(), PortError> {
        // Offset of the last three bytes of the source address in an Ethernet frame.
        const SOURCE: usize = 14 + 12 + 1;
        while batch.remaining_capacity() > 0 {
            let [_, number @ ..] = self.next.to_be_bytes();
            self.frame[SOURCE..SOURCE + 3].copy_from_slice(&number);
            self.next += 1;
            let mut packet = pool.take();
            packet.receive_copy(&self.frame);
            batch.push(packet);
        }
        Ok(())
    }

    fn wake_fd(&self) -> Option<RawFd> {
        None
    }
}

fn timed<T>(sum: &mut Option<Duration>, work: impl FnOnce() -> T) -> T {
    let before = sum.map(|_| clock::thread_time());
    let done = work();
    if let (Some(sum), Some(before)) = (sum, before) {
        *sum += clock::thread_time().saturating_sub(before);
    }
    done
}

fn main() -> Result<(), Box<dyn Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(200_000), |text| text.parse())?;
    let conntrack = Arc::new(Conntrack::new(7, Config::default()));
    let answers = Answers::Handlers(1);
    let mut switch = Switch::answered_by(answers, 2, &rules(), WorkerId(0), conntrack)?;
    switch.set_flow_limit(2 * count);
    switch.settle(Instant::from_millis(1));
    let frame =
        PacketBuilder::eth(base::MacAddr([2, 0, 0, 0, 0, 1]), base::MacAddr([2, 0, 0, 0, 0, 2]))
            .ipv4(Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
            .udp(1, 2)
            .payload([0; 18])
            .build();
    let [rx, none] = [NewFlows { frame, next: 0 }, NewFlows { frame: vec![0; 60], next: 0 }];
    let cable = |port: u32, rx: NewFlows| Cable {
        port: base::PortNo(port),
        rx: Box::new(rx),
        tx: Box::new(Discard),
    };
    let mut cables = [cable(1, rx), cable(2, none)];
    let mut handler = switch.handler();
    let (recorder, mut answered) = (Recorder::default(), Vec::new());
    let is_timed = std::env::args().nth(2).is_none();
    let (mut worker_time, mut handler_time) = [is_timed.then_some(Duration::ZERO); 2].into();
    let (mut upcalls, mut commands, mut ms) = (Vec::new(), Vec::new(), 1000);
    let mut done = 0;
    while done < count {
        ms += 1;
        let now = Instant::from_millis(ms);
        timed(&mut worker_time, || -> Result<(), PortError> {
            for _ in 0..2 {
                done += switch.work(now, &mut cables, 0)?;
            }
            Ok(())
        })?;
        timed(&mut handler_time, || {
            switch.take_upcalls(0, 64, &mut upcalls);
            for upcall in upcalls.drain(..) {
                let stamps = latency::taken(&upcall, 0, now);
                handler.translate(now, upcall, Some(stamps));
            }
            handler.install(now, |all| {
                latency::translated(all, now);
                commands.append(all);
            });
        });
        timed(&mut worker_time, || {
            for (_, command) in commands.drain(..) {
                answered.extend(latency::stamps_of(&command));
                switch.carry_out(now, command, &mut cables);
            }
            recorder.record(&answered, now);
            answered.clear();
        });
        if ms % 200 == 0 {
            switch.catch_up(now);
        }
    }
    let flows = switch.flow_count();
    match worker_time.zip(handler_time) {
        None => println!("{flows} flows"),
        Some(times) => {
            let each = |time: Duration| time.as_nanos() as f64 / done as f64;
            let (worker, handler) = (each(times.0), each(times.1));
            println!("{flows} flows: worker {worker:.0} ns, handler {handler:.0} ns each");
        }
    }
    Ok(())
}
