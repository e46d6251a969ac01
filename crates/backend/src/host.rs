//! The host: the cores that are free, the available memory, and a model's budget.

use std::num::NonZero;

use sysinfo::{MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System};

use crate::{DeviceMemory, Error, Remedy};

/// CPU threads to compute with unless the user names a number: those that the system grants the process (affinity, quota of its
/// cgroup), or fewer if other processes keep cores busy at the moment; at least one. A step waits for its slowest thread, so one
/// that shares its core slows all of them down.
pub fn free_threads() -> NonZero<usize> {
    let granted = std::thread::available_parallelism().map_or(1, NonZero::get);
    let read = |file| std::fs::read_to_string(file).ok();
    let busy = read("/proc/loadavg").and_then(|load| busy_cores(&load));
    let cores = read("/proc/stat").map(|stat| stat.lines().filter(|line| is_core(line)).count());
    let free = cores.zip(busy).map_or(granted, |(cores, busy)| cores.saturating_sub(busy).min(granted));
    NonZero::new(free).unwrap_or(NonZero::<usize>::MIN)
}

/// Whether a line of Linux's `/proc/stat` is that of one core.
fn is_core(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Cores that others keep busy, from Linux's `/proc/loadavg`, such as `1.52 1.10 0.90 3/412 9876`: both over the last minute (the
/// first number) and right now (the threads that can run, of which the caller is one), so that neither a job that has ended nor
/// one that has just begun counts.
fn busy_cores(loadavg: &str) -> Option<usize> {
    let mut fields = loadavg.split(' ');
    let last_minute: f64 = fields.next()?.parse().ok()?;
    let runnable: usize = fields.nth(2)?.split('/').next()?.parse().ok()?;
    Some(runnable.saturating_sub(1).min(last_minute.round() as usize))
}

/// Host memory of this process. `free` is the minimum of the memory that the system reports as available, the remainder of
/// the cgroup limits (page cache counts as free), and the remainder of the resource limits (`ulimit -v`, `ulimit -d`).
/// Unknown on systems that do not report it.
pub fn host_memory() -> DeviceMemory {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(mut system) = System::new_with_specifics(memory) else { return DeviceMemory::default() };
    let pid = Pid::from_u32(std::process::id());
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, ProcessRefreshKind::nothing());
    let cgroup = system.process(pid).and_then(|process| process.cgroup_limits());
    // Some systems report unknown values as 0.
    let known = |bytes: u64| (bytes > 0).then_some(bytes);
    let (total, available) = (known(system.total_memory()), known(system.available_memory()));
    let cgroup_left = cgroup.as_ref().map(|limits| limits.total_memory.saturating_sub(limits.rss));
    DeviceMemory {
        total: total.into_iter().chain(cgroup.map(|limits| limits.total_memory)).min(),
        free: available.into_iter().chain(cgroup_left).chain(left_by_rlimits()).min(),
    }
}

/// Bytes left by the resource limits of the process.
#[cfg(target_os = "linux")]
fn left_by_rlimits() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let page = rustix::param::page_size() as u64;
    let used = |field| Some(statm.split(' ').nth(field)?.parse::<u64>().ok()?.saturating_mul(page));
    // Field 0 is the total size, field 5 the size of data and stack, in pages.
    let left = |(resource, field)| Some(getrlimit(resource).current?.saturating_sub(used(field)?));
    [(Resource::As, 0), (Resource::Data, 5)].into_iter().filter_map(left).min()
}

#[cfg(not(target_os = "linux"))]
fn left_by_rlimits() -> Option<u64> {
    None
}

/// The host memory budget of a model. The system commits memory on first write and kills the process if none is left, so
/// host backends charge the budget before they allocate.
#[derive(Debug)]
pub struct HostBudget {
    /// `None` if unknown.
    limit: Option<u64>,
    taken: u64,
}

impl HostBudget {
    /// By default of the memory available now.
    pub fn new(limit: Option<u64>) -> HostBudget {
        HostBudget { limit: limit.or_else(|| host_memory().free), taken: 0 }
    }

    /// Charges `bytes` for `what`, or nothing if the charge would exceed the limit.
    pub fn take(&mut self, what: &'static str, bytes: u64, remedy: Remedy) -> Result<(), Error> {
        let taken = self.taken.saturating_add(bytes);
        if let Some(limit) = self.limit.filter(|&limit| taken > limit) {
            return Err(Error::OverBudget { what, bytes, taken: self.taken, limit, remedy });
        }
        self.taken = taken;
        Ok(())
    }

    /// Returns `bytes` to the budget.
    pub fn give_back(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format is that of proc_loadavg(5).
    #[test]
    fn cores_are_busy_that_were_and_are() {
        for (loadavg, busy) in [
            ("0.00 0.01 0.05 1/97 1234\n", Some(0)),
            ("2.10 1.10 0.90 3/412 9876\n", Some(2)),
            ("2.10 1.10 0.90 1/412 9876\n", Some(0)),
            ("0.20 1.10 0.90 5/412 9876\n", Some(0)),
            ("31.6 20.0 9.0 31/999 5\n", Some(30)),
            ("", None),
            ("a b c d", None),
        ] {
            assert_eq!(busy_cores(loadavg), busy, "{loadavg}");
        }
        assert!(is_core("cpu0 1 2 3") && is_core("cpu17 1") && !is_core("cpu  1 2 3") && !is_core("intr 5"));
        assert!(free_threads().get() <= std::thread::available_parallelism().map_or(1, NonZero::get));
    }

    #[test]
    fn a_budget_counts_what_is_taken_and_given_back() {
        let mut budget = HostBudget::new(Some(100));
        budget.take("weights", 60, Remedy::SmallerModel).expect("room");
        let error = budget.take("the KV cache", 41, Remedy::SmallerContext).expect_err("1 too many");
        let expected = Error::OverBudget {
            what: "the KV cache",
            bytes: 41,
            taken: 60,
            limit: 100,
            remedy: Remedy::SmallerContext,
        };
        assert_eq!(error, expected);
        budget.take("the KV cache", 40, Remedy::SmallerContext).expect("nothing was taken before");
        budget.give_back(40);
        budget.take("activations", 40, Remedy::SmallerBatch).expect("room again");
        budget.take("activations", u64::MAX, Remedy::SmallerBatch).expect_err("no overflow");
    }

    /// On Linux the available memory is known; process limits lower it.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_host_says_what_it_has() {
        let DeviceMemory { total: Some(total), free: Some(free) } = host_memory() else {
            panic!("it is known")
        };
        let meminfo = std::fs::read_to_string("/proc/meminfo").expect("Linux has it");
        let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix("kB"));
        let all = kib.and_then(|kib| kib.trim().parse::<u64>().ok()).expect("a number") * 1024;
        assert!(0 < free && free < total && total <= all, "{free} of {total} of {all}");
    }
}
