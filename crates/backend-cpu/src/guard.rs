//! For tests: memory that ends or begins at a page that can be neither read nor written. Whoever reads or
//! writes one byte too many is killed there and then, and what it was about to do is printed.
#![expect(unsafe_code, reason = "pages are protected, a signal is handled")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Once;

use bytemuck::Pod;
use memmap2::MmapMut;

/// Which side of a buffer is at a page that cannot be touched, and how many elements off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The buffer ends so many elements before it.
    End(usize),
    /// The buffer begins so many elements after it.
    Start(usize),
}

/// Bytes of a label, at most.
const LABEL: usize = 200;

thread_local! {
    static SIDE: Cell<Side> = const { Cell::new(Side::End(0)) };
    static DOING: Cell<([u8; LABEL], usize)> = const { Cell::new(([0; LABEL], 0)) };
}

/// What lies between the pages and is no part of the buffer.
const FILL: u8 = 0xA5;

/// A buffer beside a page that cannot be touched. What is left of its own pages on the other side is looked
/// at when it is dropped: it must be untouched.
#[derive(Debug)]
pub(crate) struct Guarded<T> {
    map: MmapMut,
    /// The bytes of `map` that can be touched, and those of them that are the buffer.
    between: Range<usize>,
    buffer: Range<usize>,
    of: PhantomData<T>,
}

impl<T: Pod> Guarded<T> {
    /// `len` elements, all bits 0.
    pub(crate) fn zeroed(len: usize, side: Side) -> std::io::Result<Guarded<T>> {
        report_faults();
        let page = page();
        let (Side::End(off) | Side::Start(off)) = side;
        let needed = (len + off) * size_of::<T>();
        let between = page..page + needed.next_multiple_of(page).max(page);
        let start = match side {
            Side::End(_) => between.end - needed,
            Side::Start(_) => between.start + off * size_of::<T>(),
        };
        let buffer = start..start + len * size_of::<T>();
        let mut map = MmapMut::map_anon(between.end + page)?;
        map[between.start..buffer.start].fill(FILL);
        map[buffer.end..between.end].fill(FILL);
        for from in [0, between.end] {
            // SAFETY: a whole page of this map, which nothing refers to.
            let failed = unsafe { libc::mprotect(map.as_mut_ptr().add(from).cast(), page, libc::PROT_NONE) };
            assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
        }
        Ok(Guarded { map, between, buffer, of: PhantomData })
    }

    /// A copy of `numbers` at `side`.
    pub(crate) fn copy(numbers: &[T], side: Side) -> Guarded<T> {
        let mut copy = Guarded::zeroed(numbers.len(), side).expect("room for a test");
        copy.copy_from_slice(numbers);
        copy
    }

    /// A copy of `numbers` at the side that [`at`] has chosen.
    pub(crate) fn beside(numbers: &[T]) -> Guarded<T> {
        Guarded::copy(numbers, SIDE.get())
    }
}

/// What `memmap2::MmapMut` is elsewhere.
pub(crate) type Map = Guarded<u8>;

impl Map {
    /// Bytes of zeros at the side that [`at`] has chosen.
    pub(crate) fn map_anon(len: usize) -> std::io::Result<Guarded<u8>> {
        Guarded::zeroed(len, SIDE.get())
    }
}

impl<T: Pod> Deref for Guarded<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.map[self.buffer.clone()])
    }
}

/// The bytes of a mapped file.
impl AsRef<[u8]> for Guarded<u8> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<T: Pod> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(&mut self.map[self.buffer.clone()])
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let outside = [self.between.start..self.buffer.start, self.buffer.end..self.between.end];
            let touched = outside.into_iter().any(|part| self.map[part].iter().any(|&byte| byte != FILL));
            assert!(!touched, "written beside a buffer: {}", doing().as_str());
        }
    }
}

/// Does `work` with weights and stores at `side`, whole elements of theirs.
pub(crate) fn at<R>(side: Side, work: impl FnOnce() -> R) -> R {
    let before = SIDE.replace(side);
    let done = work();
    SIDE.set(before);
    done
}

/// Remembers what this thread is about to do, for the case that it is killed.
pub(crate) fn label(what: &str) {
    let mut label = [0; LABEL];
    let len = what.len().min(LABEL);
    label[..len].copy_from_slice(&what.as_bytes()[..len]);
    DOING.set((label, len));
}

/// The label, without taking memory.
struct Doing([u8; LABEL], usize);

impl Doing {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0[..self.1]).unwrap_or("something")
    }
}

fn doing() -> Doing {
    let (label, len) = DOING.get();
    Doing(label, len)
}

fn page() -> usize {
    // SAFETY: no memory is concerned.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    page.try_into().expect("a page has a size")
}

/// Prints the label of a thread that touches what it must not, before it dies of it.
fn report_faults() {
    extern "C" fn report(_: libc::c_int) {
        let doing = doing();
        for part in ["\nread or written beyond a buffer: ", doing.as_str(), "\n"] {
            // SAFETY: `part` is so long. Writing is allowed in a handler.
            unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: an action of zeros is one without flags; the handler allocates nothing, takes no
            // locks and reads variables of its thread that need no making. After it the default action
            // stands again, and the instruction that is repeated kills the process.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = report as extern "C" fn(libc::c_int) as libc::sighandler_t;
                action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
                assert_eq!(libc::sigaction(signal, &action, std::ptr::null_mut()), 0);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_lies_where_it_should() {
        let page = page();
        for len in [1, 7, page / 4, page] {
            for off in [0, 3] {
                let at = |side| Guarded::<u32>::zeroed(len, side).expect("room").as_ptr_range();
                assert!((at(Side::End(off)).end.addr() + 4 * off).is_multiple_of(page));
                assert!((at(Side::Start(off)).start.addr() - 4 * off).is_multiple_of(page));
            }
        }
        assert_eq!(*Guarded::copy(&[1u8, 2, 3], Side::End(0)), [1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "written beside a buffer: this test")]
    fn what_is_written_beside_a_buffer_is_seen() {
        let mut buffer = Guarded::<u8>::zeroed(5, Side::End(2)).expect("room");
        label("this test");
        let after = buffer.buffer.end;
        buffer.map[after] = 0;
    }
}
