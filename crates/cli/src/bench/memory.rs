//! Memory of this process.

/// Peak resident bytes since [`restart`]; `None` if the system does not report it.
pub(super) fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// Resident bytes that are not of a file; `None` if the system does not report it.
pub(super) fn anonymous() -> Option<u64> {
    status("RssAnon:")
}

/// A value of `/proc/self/status` (proc(5)).
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Resets the peak; false if the system cannot (Linux can: proc(5), `clear_refs`).
pub(super) fn restart() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
