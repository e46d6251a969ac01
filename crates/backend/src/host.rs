//! The memory of the machine that runs the program: what is available, and a model's budget of it.

use sysinfo::{MemoryRefreshKind, Pid, ProcessRefreshKind, ProcessesToUpdate, RefreshKind, System};

use crate::{DeviceMemory, Error, Remedy};

/// What this process may have of the host's memory. Free is the least of what the system has available, what the limits of
/// the process's cgroups leave, where page cache counts as free, and what its own limits (`ulimit -v`, `ulimit -d`) leave.
/// Unknown where the system does not say.
pub fn host_memory() -> DeviceMemory {
    let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
    let Ok(mut system) = System::new_with_specifics(memory) else { return DeviceMemory::default() };
    let pid = Pid::from_u32(std::process::id());
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, ProcessRefreshKind::nothing());
    let of_cgroup = system.process(pid).and_then(|process| process.cgroup_limits());
    // On some systems 0 stands for "not known".
    let known = |bytes: u64| (bytes > 0).then_some(bytes);
    let (total, available) = (known(system.total_memory()), known(system.available_memory()));
    let cgroup_left = of_cgroup.as_ref().map(|limits| limits.total_memory.saturating_sub(limits.rss));
    DeviceMemory {
        total: total.into_iter().chain(of_cgroup.map(|limits| limits.total_memory)).min(),
        free: available.into_iter().chain(cgroup_left).chain(left_by_rlimits()).min(),
    }
}

/// Bytes that the process's own limits leave.
#[cfg(target_os = "linux")]
fn left_by_rlimits() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let page = rustix::param::page_size() as u64;
    let used = |field| Some(statm.split(' ').nth(field)?.parse::<u64>().ok()?.saturating_mul(page));
    // Its fields 0 and 5 are the sizes of all memory and of data with stack.
    let left = |(resource, field)| Some(getrlimit(resource).current?.saturating_sub(used(field)?));
    [(Resource::As, 0), (Resource::Data, 5)].into_iter().filter_map(left).min()
}

#[cfg(not(target_os = "linux"))]
fn left_by_rlimits() -> Option<u64> {
    None
}

/// The host's memory that a model may take, and what it has taken. The system gives memory when it is written to and ends
/// a process that has none left to write to, so a backend of the host asks here before it allocates.
#[derive(Debug)]
pub struct HostBudget {
    /// None when nobody knows.
    limit: Option<u64>,
    taken: u64,
}

impl HostBudget {
    /// For a model that may take so many bytes; without a limit, what is available now.
    pub fn new(limit: Option<u64>) -> HostBudget {
        HostBudget { limit: limit.or_else(|| host_memory().free), taken: 0 }
    }

    /// Takes `bytes` for `what`.
    ///
    /// # Errors
    /// When that is more than is left; nothing is taken then.
    pub fn take(&mut self, what: &'static str, bytes: u64, remedy: Remedy) -> Result<(), Error> {
        let taken = self.taken.saturating_add(bytes);
        match self.limit {
            Some(limit) if taken > limit => {
                Err(Error::OverBudget { what, bytes, taken: self.taken, limit, remedy })
            }
            _ => {
                self.taken = taken;
                Ok(())
            }
        }
    }

    /// Gives `bytes` back.
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
        let error = budget.take("the K/V cache", 41, Remedy::SmallerContext).expect_err("1 too many");
        let expected = Error::OverBudget {
            what: "the K/V cache",
            bytes: 41,
            taken: 60,
            limit: 100,
            remedy: Remedy::SmallerContext,
        };
        assert_eq!(error, expected);
        budget.take("the K/V cache", 40, Remedy::SmallerContext).expect("nothing was taken before");
        budget.give_back(40);
        budget.take("activations", 40, Remedy::SmallerBatch).expect("room again");
        budget.take("activations", u64::MAX, Remedy::SmallerBatch).expect_err("no overflow");
    }

    /// Linux says what there is; a limit of the process lowers it.
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
