//! The SIGBUS handler and its list of mappings.
//!
//! The handler is async-signal-safe: it uses only atomic loads and stores and the system calls `mmap`, `sigaction` and
//! `raise`, takes no lock and does not allocate. Entries of the list are never changed or freed: a few bytes per mapping.

use std::io;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use libc::{c_int, c_void, siginfo_t};

#[derive(Debug)]
pub(super) struct Guard(&'static Entry);

impl Guard {
    /// Adds the mapping of `len` bytes at `start`. The handler protects it once installed.
    pub(super) fn new(start: usize, len: usize) -> io::Result<Guard> {
        let pages = start..start + len.next_multiple_of(page_size()?);
        let entry: &Entry = Box::leak(Box::new(Entry::new(pages)));
        let mut last = &FIRST;
        while last.next.set(entry).is_err() {
            last = last.next.get().copied().unwrap_or(last);
        }
        Ok(Guard(entry))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.0.is_lost.load(Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.is_mapped.store(false, Release);
    }
}

#[derive(Debug)]
struct Entry {
    /// Addresses of whole pages.
    pages: Range<usize>,
    is_mapped: AtomicBool,
    is_lost: AtomicBool,
    next: OnceLock<&'static Entry>,
}

static FIRST: Entry = Entry::new(0..0);

impl Entry {
    const fn new(pages: Range<usize>) -> Entry {
        let (is_mapped, is_lost) = (AtomicBool::new(true), AtomicBool::new(false));
        Entry { pages, is_mapped, is_lost, next: OnceLock::new() }
    }

    fn contains(&self, address: usize) -> bool {
        self.pages.contains(&address) && self.is_mapped.load(Acquire)
    }

    fn find(address: usize) -> Option<&'static Entry> {
        std::iter::successors(Some(&FIRST), |entry| entry.next.get().copied())
            .find(|entry| entry.contains(address))
    }
}

struct Installed {
    page: usize,
    /// The disposition of SIGBUS before ours.
    previous: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

fn page_size() -> io::Result<usize> {
    // SAFETY: sysconf only reads its argument.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).map_err(|_| io::Error::last_os_error())
}

pub(super) fn install() -> io::Result<()> {
    static RESULT: OnceLock<Result<(), i32>> = OnceLock::new();
    let result = RESULT.get_or_init(|| try_install().map_err(|error| error.raw_os_error().unwrap_or(0)));
    result.map_err(io::Error::from_raw_os_error)
}

fn try_install() -> io::Result<()> {
    let page = page_size()?;
    // SAFETY: a sigaction is plain data for which zeros are valid (no flags, empty mask, default).
    let (mut previous, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    let check = |result| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // The previous disposition must be stored before the new handler can receive a signal.
    // SAFETY: `previous` is valid for writing; a null new action changes nothing.
    check(unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) })?;
    INSTALLED.get_or_init(|| Installed { page, previous });
    ours.sa_sigaction = on_sigbus as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and is async-signal-safe.
    check(unsafe { libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()) })
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, _context: *mut c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo, which for SIGBUS holds an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // BUS_ADRALN to BUS_MCEERR_AO: raised by an access, not sent by a process.
    let fault = (1..=5).contains(&code);
    if fault && let Some(entry) = Entry::find(address) {
        // Mark the loss before the zeros become readable, so that any reader of zeros sees the mark.
        entry.is_lost.store(true, Release);
        let start = (address - address % installed.page) as *mut c_void;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: the interrupted instruction reads this page, so its mapping is alive, and it is read-only. A
        // successful call does not change `errno`.
        let zeros = unsafe { libc::mmap(start, installed.page, libc::PROT_READ, flags, -1, 0) };
        if zeros != libc::MAP_FAILED {
            return;
        }
    }
    // SAFETY: both calls are async-signal-safe, and `previous` came from the system. The previous disposition receives
    // the signal after this handler: a faulting instruction runs again, a sent signal is sent again.
    unsafe {
        libc::sigaction(signal, &installed.previous, ptr::null_mut());
        if !fault {
            libc::raise(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Map;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    /// Runs `child` in a separate process, as test `name` of this executable.
    fn in_child(name: &str, child: fn()) -> ExitStatus {
        const CHILD: &str = "GGUF_GUARD_TEST_CHILD";
        if std::env::var_os(CHILD).is_some() {
            child();
            std::process::exit(0);
        }
        let name = format!("map::guard::tests::{name}");
        let exe = std::env::current_exe().unwrap();
        Command::new(exe).args([&name, "--exact"]).env(CHILD, "1").status().unwrap()
    }

    extern "C" fn exit_42(_: c_int) {
        // SAFETY: _exit is async-signal-safe.
        unsafe { libc::_exit(42) }
    }

    fn send_sigbus() {
        // SAFETY: raise has no requirements.
        assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
    }

    fn temp_map(len: u64) -> (tempfile::NamedTempFile, Map) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(len).unwrap();
        let map = Map::open(file.path()).unwrap();
        (file, map)
    }

    #[test]
    fn other_faults_reach_the_previous_handler() {
        let status = in_child("other_faults_reach_the_previous_handler", || {
            // SAFETY: zeros are a valid sigaction; the handler has the required signature.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = exit_42 as *const () as usize;
                assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
            }
            install().unwrap();
            // A fault in a registered mapping does not reach it.
            let (file, map) = temp_map(1 << 16);
            file.as_file().set_len(0).unwrap();
            assert_eq!(map.map[1 << 15], 0);
            assert!(map.is_lost());
            // The same fault in an unregistered mapping.
            let other = tempfile::tempfile().unwrap();
            other.set_len(1 << 16).unwrap();
            // SAFETY: the file is this process's own.
            let mapped = unsafe { memmap2::Mmap::map(&other).unwrap() };
            other.set_len(0).unwrap();
            std::hint::black_box(mapped[0]);
        });
        assert_eq!(status.code(), Some(42));
    }

    #[test]
    fn a_sent_signal_still_kills() {
        let status = in_child("a_sent_signal_still_kills", || {
            // The runtime has a handler for SIGBUS; without it the disposition is the default.
            // SAFETY: zeros are a valid sigaction, the default.
            unsafe {
                let action: libc::sigaction = std::mem::zeroed();
                assert_eq!(libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()), 0);
            }
            install().unwrap();
            send_sigbus();
        });
        assert_eq!(status.signal(), Some(libc::SIGBUS));
    }

    /// The library does not touch signal handlers by itself: reading a lost page kills the process as with any mapping.
    #[test]
    fn opening_a_file_installs_no_handler() {
        let status = in_child("opening_a_file_installs_no_handler", || {
            let disposition = || {
                // SAFETY: zeros are a valid sigaction; a null new action changes nothing.
                unsafe {
                    let mut action: libc::sigaction = std::mem::zeroed();
                    assert_eq!(libc::sigaction(libc::SIGBUS, ptr::null(), &mut action), 0);
                    action.sa_sigaction
                }
            };
            let before = disposition();
            let file = tempfile::NamedTempFile::new().unwrap();
            crate::write(file.as_file(), &crate::Metadata::default(), std::iter::empty()).unwrap();
            let _gguf = crate::Gguf::open(file.path()).unwrap();
            let (file, map) = temp_map(1 << 16);
            assert_eq!(disposition(), before);
            file.as_file().set_len(0).unwrap();
            std::hint::black_box(map.map[1 << 15]);
        });
        assert_eq!(status.signal(), Some(libc::SIGBUS));
    }

    #[test]
    fn a_dropped_mapping_is_unregistered() {
        let (_file, map) = temp_map(1 << 16);
        let inside = map.map.as_ptr() as usize + 5000;
        let entry = map.guard.0;
        assert!(Entry::find(inside).is_some_and(|found| ptr::eq(found, entry)));
        drop(map);
        assert!(!entry.contains(inside));
    }
}
