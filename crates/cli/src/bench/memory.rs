//! The memory that this process holds.

/// Bytes of resident memory at most, since [`restart`]; `None` where the system does not say.
pub(super) fn peak() -> Option<u64> {
    status("VmHWM:")
}

/// Bytes of resident memory that come from no file; `None` where the system does not say.
pub(super) fn anonymous() -> Option<u64> {
    status("RssAnon:")
}

/// What Linux says under this name (proc(5)).
fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Begins anew with what is held now; false where the system does not do that (Linux does: proc(5),
/// `clear_refs`).
pub(super) fn restart() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
