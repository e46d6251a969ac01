//! Sums over the cards of a group, by NVIDIA's library of collectives, NCCL 2.
//!
//! The library is opened when a card joins a group. The few functions used here are declared by hand: cudarc's bindings do not look
//! for `libnccl.so.2`, the name that NCCL has where it is installed, and panic without it.

use std::error::Error as _;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use backend::{Error, GroupId, Member};
use cudarc::driver::sys::CUstream;
use libloading::Library;

use super::{Buffer, Device, Queue};

/// Where the library is looked for, in the folders of the system and of `LD_LIBRARY_PATH`.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// `ncclSuccess`.
const SUCCESS: c_int = 0;
/// `ncclFloat32` of `ncclDataType_t`.
const FLOAT32: c_int = 7;
/// `ncclSum` of `ncclRedOp_t`.
const SUM: c_int = 0;

#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId(GroupId);

type Comm = *mut c_void;

struct Nccl {
    get_unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    comm_init_rank: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int) -> c_int,
    all_reduce:
        unsafe extern "C" fn(*const c_void, *mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int,
    comm_abort: unsafe extern "C" fn(Comm) -> c_int,
    get_error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    /// Stays open as long as the functions are used.
    _library: Library,
}

impl Nccl {
    /// The library, opened once.
    fn open() -> Result<&'static Nccl, String> {
        static OPENED: OnceLock<Result<Nccl, String>> = OnceLock::new();
        OPENED.get_or_init(Nccl::find).as_ref().map_err(Clone::clone)
    }

    fn find() -> Result<Nccl, String> {
        let mut failed = Vec::new();
        for name in NAMES {
            // SAFETY: NCCL runs nothing but its own initialisation when it is loaded.
            match unsafe { Library::new(name) } {
                Ok(library) => {
                    // SAFETY: the functions have these types in every NCCL 2.
                    let found = unsafe { Nccl::load(library) };
                    return found.map_err(|error| format!("{name}: {error}"));
                }
                Err(error) => {
                    let why = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
                    failed.push(format!("{name}: {why}"));
                }
            }
        }
        Err(format!(
            "NCCL is not found ({}): install it, or name its folder in LD_LIBRARY_PATH; PyTorch has it in nvidia/nccl/lib",
            failed.join("; ")
        ))
    }

    /// Looks the functions up.
    ///
    /// # Safety
    /// The library is NCCL 2.
    unsafe fn load(library: Library) -> Result<Nccl, libloading::Error> {
        // SAFETY: the caller knows that the library is NCCL.
        unsafe {
            Ok(Nccl {
                get_unique_id: *library.get(b"ncclGetUniqueId")?,
                comm_init_rank: *library.get(b"ncclCommInitRank")?,
                all_reduce: *library.get(b"ncclAllReduce")?,
                comm_abort: *library.get(b"ncclCommAbort")?,
                get_error_string: *library.get(b"ncclGetErrorString")?,
                _library: library,
            })
        }
    }

    /// An error of `function` unless it returned success.
    fn check(&self, function: &str, result: c_int) -> Result<(), String> {
        if result == SUCCESS {
            return Ok(());
        }
        // SAFETY: the library returns a text of its own, or null.
        let text = unsafe {
            let text = (self.get_error_string)(result);
            if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy().into_owned()) }
        };
        let text = text.unwrap_or_else(|| "unknown error".to_owned());
        Err(format!("{function}: {text} ({result}); NCCL_DEBUG=WARN tells more"))
    }
}

/// A card's end of the group.
pub(super) struct Communicator {
    nccl: &'static Nccl,
    comm: Comm,
    is_ended: AtomicBool,
}

// SAFETY: NCCL's handles may be used from any thread, and `is_ended` guards the only function that frees one.
unsafe impl Send for Communicator {}
// SAFETY: sums are queued by one thread at a time, that of the queue; aborting is meant for another thread.
unsafe impl Sync for Communicator {}

impl Communicator {
    /// Ends sums that wait for other cards. Later ones fail.
    fn abort(&self) {
        if !self.is_ended.swap(true, Ordering::AcqRel) {
            // SAFETY: it was created, and is freed here only.
            let _ = unsafe { (self.nccl.comm_abort)(self.comm) };
        }
    }
}

impl Drop for Communicator {
    /// Nothing is queued any more. Unlike `ncclCommDestroy`, aborting does not wait for the other cards.
    fn drop(&mut self) {
        self.abort();
    }
}

impl Device {
    /// Makes the card a member of a group of cards; returns when all have joined.
    pub(crate) fn join(&self, member: &Member) -> Result<(), Error> {
        let failed = |why| Error::Group { device: self.card.name.clone(), why };
        let nccl = Nccl::open().map_err(failed)?;
        self.make_current()?;
        let id = member.id(|| {
            let mut id = UniqueId([0; 128]);
            // SAFETY: writes the id.
            nccl.check("ncclGetUniqueId", unsafe { (nccl.get_unique_id)(&mut id) }).map_err(failed)?;
            Ok(id.0)
        })?;
        let (ranks, rank) = (member.rank.ranks as c_int, member.rank.rank as c_int);
        let mut comm = std::ptr::null_mut();
        // SAFETY: the context is current; `comm` is written.
        let joined = unsafe { (nccl.comm_init_rank)(&mut comm, ranks, UniqueId(id), rank) };
        nccl.check("ncclCommInitRank", joined).map_err(failed)?;
        let communicator = Arc::new(Communicator { nccl, comm, is_ended: AtomicBool::new(false) });
        let end = Arc::downgrade(&communicator);
        member.on_failure(move || {
            if let Some(communicator) = end.upgrade() {
                communicator.abort();
            }
        });
        let joined = self.communicator.set(communicator);
        joined.map_err(|_| failed("it is a member of a group already".to_owned()))
    }
}

impl Queue<'_> {
    /// Sums `words` words, which the buffer has, over the cards.
    pub(super) fn sum_over_cards(&mut self, buffer: &Buffer, words: usize) -> Result<(), Error> {
        let device = self.device;
        let failed = |why| Error::Device { device: device.card.name.clone(), why };
        let communicator =
            device.communicator.get().ok_or_else(|| failed("it has joined no group".to_owned()))?;
        if communicator.is_ended.load(Ordering::Acquire) {
            return Err(failed("the other cards of its group have failed".to_owned()));
        }
        let (nccl, at) = (communicator.nccl, buffer.address() as *mut c_void);
        // SAFETY: the buffer has so many words, and the stream is of this card. Ended communicators are not used.
        let queued =
            unsafe { (nccl.all_reduce)(at, at, words, FLOAT32, SUM, communicator.comm, device.stream) };
        nccl.check("ncclAllReduce", queued).map_err(failed)
    }
}
