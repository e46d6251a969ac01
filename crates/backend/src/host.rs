//! Host memory: the available amount, and a model's budget.

use sysinfo::{MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System};

use crate::{DeviceMemory, Error, Remedy};

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
