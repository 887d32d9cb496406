//! What workers tell the control thread.

use super::Shared;
use super::worker_thread::WorkerEvent;
use crate::clock;
use tokio::sync::mpsc::UnboundedReceiver;

/// Hears the workers for as long as there are any: their events, and the misses in their queue.
pub async fn serve_workers(shared: Shared, mut inbox: UnboundedReceiver<WorkerEvent>) {
    while let Some(event) = inbox.recv().await {
        shared.borrow_mut().worker_event(event);
        loop {
            let more = {
                let mut switch = shared.borrow_mut();
                let more = switch.answer_upcalls(clock::now());
                switch.settle();
                more
            };
            // Sockets and timers get their turn between the batches of a storm.
            tokio::task::yield_now().await;
            if !more {
                break;
            }
        }
    }
}
