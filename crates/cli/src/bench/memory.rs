//! Memory of this process on Linux (proc(5)); other systems do not report it.

/// Bytes in the line `name` of `/proc/self/status`: `VmHWM` is the peak of resident memory since [`restart`], `RssAnon` resident
/// memory that is not of a file.
pub(super) fn status(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Resets the peak; false if the system cannot.
pub(super) fn restart() -> bool {
    std::fs::write("/proc/self/clear_refs", "5").is_ok()
}
