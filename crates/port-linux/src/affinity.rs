//! CPU affinity and scheduling of threads.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// Pins the calling thread to this CPU, numbered from 0 as in `pmd-cpu-mask`.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("CPU {cpu}: there are at most {}", CpuSet::MAX_CPU),
        ));
    }
    set.set(cpu);
    sched_setaffinity(None, &set)?;
    Ok(())
}

/// Makes the calling thread's sleeps end on time: by default the kernel delays them by up to 50 microseconds
/// to coalesce timers (prctl(2), `PR_SET_TIMERSLACK`).
pub fn sleep_precisely() -> io::Result<()> {
    rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1))?;
    Ok(())
}

/// Gives the calling thread the lowest priority, for work that no other thread waits for (setpriority(2); on
/// Linux it applies to one thread).
pub fn give_way() -> io::Result<()> {
    const LEAST: i32 = 19;
    rustix::process::setpriority_process(None, LEAST)?;
    Ok(())
}

/// Returns the CPUs on which the calling thread may run, in ascending order.
pub fn allowed_cpus() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_stays_where_it_was_put() {
        std::thread::spawn(|| {
            let allowed = allowed_cpus().unwrap();
            for &cpu in &allowed {
                pin_to_cpu(cpu).unwrap();
                assert_eq!(allowed_cpus().unwrap(), [cpu]);
                assert_eq!(rustix::thread::sched_getcpu(), cpu);
            }
            assert!(pin_to_cpu(CpuSet::MAX_CPU).is_err());
            assert!(pin_to_cpu(CpuSet::MAX_CPU - 1).is_err(), "no machine has that one");
        })
        .join()
        .unwrap();
    }
}
