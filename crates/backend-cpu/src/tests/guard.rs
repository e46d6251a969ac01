//! Tests: buffers next to guard pages. An out-of-bounds access kills the process and prints the current test's label.
#![expect(unsafe_code, reason = "pages are protected, a signal is handled")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Once;

use bytemuck::Pod;
use memmap2::MmapMut;

/// The side of a buffer with the guard page, and the distance in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The buffer ends this many elements before the guard page.
    End(usize),
    /// The buffer begins this many elements after the guard page.
    Start(usize),
}

/// Maximum bytes of a label.
const LABEL: usize = 200;

thread_local! {
    static SIDE: Cell<Side> = const { Cell::new(Side::End(0)) };
    static DOING: Cell<([u8; LABEL], usize)> = const { Cell::new(([0; LABEL], 0)) };
}

/// Fills the space between buffer and guard pages.
const FILL: u8 = 0xA5;

/// A buffer next to a guard page. Drop checks that the rest of its own pages is untouched.
#[derive(Debug)]
pub(crate) struct Guarded<T> {
    map: MmapMut,
    /// The accessible bytes of `map`, and the buffer within them.
    between: Range<usize>,
    buffer: Range<usize>,
    of: PhantomData<T>,
}

impl<T: Pod> Guarded<T> {
    /// `len` zeroed elements.
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
            // SAFETY: a whole page of this map that nothing references.
            let failed = unsafe { libc::mprotect(map.as_mut_ptr().add(from).cast(), page, libc::PROT_NONE) };
            assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
        }
        Ok(Guarded { map, between, buffer, of: PhantomData })
    }

    /// A copy of `values` at `side`.
    pub(crate) fn copy(values: &[T], side: Side) -> Guarded<T> {
        let mut copy = Guarded::zeroed(values.len(), side).expect("enough memory");
        copy.copy_from_slice(values);
        copy
    }

    /// A copy of `values` at the side chosen by [`at`].
    pub(crate) fn beside(values: &[T]) -> Guarded<T> {
        Guarded::copy(values, SIDE.get())
    }
}

/// Stands in for `memmap2::MmapMut`.
pub(crate) type Map = Guarded<u8>;

impl Map {
    /// Zeroed bytes at the side chosen by [`at`].
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

/// Runs `work` with weights and stores at `side`.
pub(crate) fn at<R>(side: Side, work: impl FnOnce() -> R) -> R {
    let before = SIDE.replace(side);
    let done = work();
    SIDE.set(before);
    done
}

/// Sets the label that a fault of this thread prints.
pub(crate) fn label(what: &str) {
    let mut label = [0; LABEL];
    let len = what.len().min(LABEL);
    label[..len].copy_from_slice(&what.as_bytes()[..len]);
    DOING.set((label, len));
}

/// A label, without heap allocation.
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
    // SAFETY: `sysconf` touches no memory.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    page.try_into().expect("a page has a size")
}

/// Installs handlers that print the label of a faulting thread.
fn report_faults() {
    extern "C" fn report(_: libc::c_int) {
        let doing = doing();
        for part in ["\nread or written beyond a buffer: ", doing.as_str(), "\n"] {
            // SAFETY: `part` has this length; `write` is async-signal-safe.
            unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            // SAFETY: a zeroed action is valid. The handler neither allocates nor locks and reads const-initialised
            // thread locals. SA_RESETHAND restores the default action, so the repeated instruction kills the process.
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
    fn a_buffer_touches_its_guard_page() {
        let page = page();
        for len in [1, 7, page / 4, page] {
            for off in [0, 3] {
                let at = |side| Guarded::<u32>::zeroed(len, side).expect("enough memory").as_ptr_range();
                assert!((at(Side::End(off)).end.addr() + 4 * off).is_multiple_of(page));
                assert!((at(Side::Start(off)).start.addr() - 4 * off).is_multiple_of(page));
            }
        }
        assert_eq!(*Guarded::copy(&[1u8, 2, 3], Side::End(0)), [1, 2, 3]);
    }

    #[test]
    #[should_panic(expected = "written beside a buffer: this test")]
    fn a_write_beside_a_buffer_is_detected() {
        let mut buffer = Guarded::<u8>::zeroed(5, Side::End(2)).expect("enough memory");
        label("this test");
        let after = buffer.buffer.end;
        buffer.map[after] = 0;
    }
}
