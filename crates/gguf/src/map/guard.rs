//! The SIGBUS handler and its registry of mappings.
//!
//! The handler is async-signal-safe: it uses only atomic loads and stores and the system calls `mmap`, `sigaction` and
//! `raise`, takes no lock and does not allocate. Registry entries are reused but never freed, so the list can be
//! traversed without synchronisation.

use std::io;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize, fence};

use libc::{c_int, c_void, siginfo_t};

/// Keeps a mapping registered.
#[derive(Debug)]
pub(super) struct Guard {
    slot: &'static Slot,
}

impl Guard {
    /// Registers the mapping of `len` bytes at `start`. The handler protects it once installed.
    pub(super) fn new(start: usize, len: usize) -> io::Result<Guard> {
        let end = start + len.next_multiple_of(page_size()?);
        let slot = Slot::claim();
        slot.lost.store(false, Relaxed);
        slot.set_range(start, end);
        Ok(Guard { slot })
    }

    /// Whether a page of the mapping was replaced.
    pub(super) fn is_lost(&self) -> bool {
        self.slot.lost.load(Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.slot.set_range(0, 0);
        self.slot.claimed.store(false, Release);
    }
}

/// One entry of the registry.
#[derive(Debug, Default)]
struct Slot {
    claimed: AtomicBool,
    /// Sequence lock: odd while the range is being changed. A reader that sees it odd or changing skips the slot, which
    /// cannot belong to the mapping being read.
    generation: AtomicUsize,
    start: AtomicUsize,
    /// End of the last page.
    end: AtomicUsize,
    lost: AtomicBool,
    next: OnceLock<&'static Slot>,
}

static FIRST: Slot = Slot {
    claimed: AtomicBool::new(false),
    generation: AtomicUsize::new(0),
    start: AtomicUsize::new(0),
    end: AtomicUsize::new(0),
    lost: AtomicBool::new(false),
    next: OnceLock::new(),
};

impl Slot {
    /// Claims a slot exclusively.
    fn claim() -> &'static Slot {
        let mut slot = &FIRST;
        while slot.claimed.swap(true, AcqRel) {
            slot = slot.next.get_or_init(|| Box::leak(Box::default()));
        }
        slot
    }

    fn set_range(&self, start: usize, end: usize) {
        self.generation.fetch_add(1, Relaxed);
        fence(Release);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
        self.generation.fetch_add(1, Release);
    }

    fn contains(&self, address: usize) -> bool {
        let before = self.generation.load(Acquire);
        let range = self.start.load(Relaxed)..self.end.load(Relaxed);
        fence(Acquire);
        before.is_multiple_of(2) && before == self.generation.load(Relaxed) && range.contains(&address)
    }

    /// The slot whose mapping contains `address`.
    fn find(address: usize) -> Option<&'static Slot> {
        std::iter::successors(Some(&FIRST), |slot| slot.next.get().copied())
            .find(|slot| slot.contains(address))
    }
}

/// Data for the handler.
struct Installed {
    /// Page size in bytes.
    page: usize,
    /// The disposition of SIGBUS before ours.
    previous: libc::sigaction,
}

static INSTALLED: OnceLock<Installed> = OnceLock::new();

/// Installs the handler once per process.
pub(super) fn install() -> io::Result<()> {
    static RESULT: OnceLock<Result<(), i32>> = OnceLock::new();
    let result = RESULT.get_or_init(|| try_install().map_err(|error| error.raw_os_error().unwrap_or(0)));
    result.map_err(io::Error::from_raw_os_error)
}

/// Page size in bytes.
fn page_size() -> io::Result<usize> {
    // SAFETY: sysconf only reads its argument.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(page).map_err(|_| io::Error::last_os_error())
}

fn try_install() -> io::Result<()> {
    let page = page_size()?;
    // SAFETY: a sigaction is plain data for which zeros are valid (no flags, empty mask, default).
    let (mut previous, mut ours): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    // The previous disposition must be stored before the new handler can receive a signal.
    // SAFETY: `previous` is valid for writing; a null new action changes nothing.
    check(unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) })?;
    INSTALLED.get_or_init(|| Installed { page, previous });
    ours.sa_sigaction = on_sigbus as *const () as usize;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the handler has the signature that SA_SIGINFO asks for and is async-signal-safe.
    check(unsafe { libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()) })
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

extern "C" fn on_sigbus(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(installed) = INSTALLED.get() else { return };
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo, which for SIGBUS holds an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // BUS_ADRALN to BUS_MCEERR_AO: raised by an access, not sent by a process.
    let fault = (1..=5).contains(&code);
    if fault && let Some(slot) = Slot::find(address) {
        // Mark the loss before the zeros become readable, so that any reader of zeros sees the mark.
        slot.lost.store(true, Release);
        if zero_page(address - address % installed.page, installed.page) {
            return;
        }
    }
    forward(installed, fault, signal, info, context);
}

/// Maps a zero page at `start`, a page of a registered mapping.
fn zero_page(start: usize, page: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the interrupted instruction reads this page, so its mapping is alive, and it is read-only. A successful
    // call does not change `errno`.
    let mapped = unsafe { libc::mmap(start as *mut c_void, page, libc::PROT_READ, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Handles the signal as the previous disposition would.
fn forward(installed: &Installed, fault: bool, signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let previous = &installed.previous;
    match previous.sa_sigaction {
        // An ignored signal that was sent is dropped; the kernel lets no fault be ignored.
        libc::SIG_IGN if !fault => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: zeros are the default disposition; both calls are async-signal-safe. A faulting
            // instruction runs again and ends the process; a sent signal is sent again.
            unsafe {
                let default: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &default, ptr::null_mut());
                if !fault {
                    libc::raise(signal);
                }
            }
        }
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flag says that the address is of a function with this signature.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag the address is of a function with this signature.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
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
        let map = Map::open(file.path()).unwrap().unwrap();
        (file, map)
    }

    #[test]
    fn other_faults_reach_the_previous_handler() {
        let status = in_child("other_faults_reach_the_previous_handler", || {
            // SAFETY: zeros are a valid sigaction; the handler has the signature asked for.
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
        assert!(Slot::find(inside).is_some_and(|slot| ptr::eq(slot, map.guard.slot)));
        let slot = map.guard.slot;
        drop(map);
        assert!(!slot.contains(inside));
    }
}
