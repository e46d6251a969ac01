//! What this machine could do at best: the rates of multiply-adds and of reading memory that no kernel
//! gets past.
//!
//! They are measured as the kernels run: on the threads of a [`Pool`], all at once. A machine that others
//! use, too, is slower for a while and never faster, so rates are taken in turn for some time, and the best
//! of each is kept.

use std::hint::black_box;
use std::io;
use std::num::NonZero;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::Isa;
use crate::lanes::plain::Plain;
use crate::lanes::{self, Lanes, Work};
use crate::pool::Pool;

/// How long measuring goes on.
const TIME: Duration = Duration::from_millis(1200);

/// The fewest turns.
const TURNS: usize = 2 * MEMORY / WINDOW;

/// Rounds of a loop of multiply-adds: about a millisecond, less than the time for which a system lets a
/// thread run.
#[cfg(target_arch = "x86_64")]
const ROUNDS: u64 = 300_000;

/// Bytes of memory, more than caches hold.
const MEMORY: usize = 512 << 20;

/// Bytes of it that are read in a turn; the next turn reads the next.
const WINDOW: usize = 64 << 20;

/// Bytes that a thread reads at once.
const PART: usize = 1 << 20;

/// What a number of threads could do at best with an instruction set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Multiply-adds of 8-bit integers a second, summed in 32 bits. AVX-512: `vpdpbusd` on 512 bits; AVX2:
    /// `vpmaddubsw` and `vpaddw`, and after eight of each `vpmaddwd` and `vpaddd`. Plain Rust has no such
    /// ceiling, as a compiler chooses its instructions.
    pub int8_macs_per_second: Option<f64>,
    /// Fused multiply-adds of f32 a second, at the set's width. Plain Rust has none.
    pub f32_macs_per_second: Option<f64>,
    /// Bytes a second that are read one after the other from memory on pages of 2 MB, where the system has
    /// them.
    pub read_bytes_per_second: f64,
}

impl Ceilings {
    /// The higher of each two rates, as of two measurements of the same.
    pub fn best(self, other: Ceilings) -> Ceilings {
        let higher = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(b.map_or(a, |b| a.max(b))));
        Ceilings {
            int8_macs_per_second: higher(self.int8_macs_per_second, other.int8_macs_per_second),
            f32_macs_per_second: higher(self.f32_macs_per_second, other.f32_macs_per_second),
            read_bytes_per_second: self.read_bytes_per_second.max(other.read_bytes_per_second),
        }
    }
}

/// Measures for a second or two, on `threads` threads, with 512 MB of memory. What this processor does not
/// have has no ceiling.
///
/// # Errors
/// When the system has no room.
pub fn ceilings(isa: Isa, threads: NonZero<usize>) -> io::Result<Ceilings> {
    let mut pool = Pool::new(threads.get());
    let memory = memory(&mut pool)?;
    let start = Instant::now();
    let mut windows = memory.chunks_exact(WINDOW).cycle();
    let mut turn = || {
        let [int8, f32] = multiply_adds(isa, &mut pool);
        let window = windows.next().unwrap_or_default();
        let read = WINDOW as f64 / seconds(|| read(isa, &mut pool, window));
        Ceilings { int8_macs_per_second: int8, f32_macs_per_second: f32, read_bytes_per_second: read }
    };
    let mut best = turn();
    let mut turns = 1;
    while turns < TURNS || start.elapsed() < TIME {
        best = best.best(turn());
        turns += 1;
    }
    Ok(best)
}

/// Multiply-adds a second: of integers and of f32.
#[cfg(target_arch = "x86_64")]
fn multiply_adds(isa: Isa, pool: &mut Pool) -> [Option<f64>; 2] {
    use lanes::avx2::Avx2;
    use lanes::avx512::Avx512;

    let loops = match isa {
        Isa::Scalar => None,
        Isa::Avx2 => Avx2::detect().map(|lanes| [lanes.int8(), lanes.f32()]),
        Isa::Avx512 => Avx512::detect().map(|lanes| [lanes.int8(), lanes.f32()]),
    };
    let mut rate = |spin: lanes::rates::Spin| {
        let threads = pool.threads();
        let seconds = seconds(|| pool.run(threads, &|_| spin.run(ROUNDS)));
        (threads as u64 * ROUNDS * spin.macs) as f64 / seconds
    };
    match loops {
        Some([int8, f32]) => [Some(rate(int8)), Some(rate(f32))],
        None => [None; 2],
    }
}

/// Multiply-adds a second: not known here.
#[cfg(not(target_arch = "x86_64"))]
fn multiply_adds(_: Isa, _: &mut Pool) -> [Option<f64>; 2] {
    [None; 2]
}

/// Memory that has been written, lest all of it be the system's one page of zeros.
fn memory(pool: &mut Pool) -> io::Result<MmapMut> {
    let mut map = MmapMut::map_anon(MEMORY)?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    pool.tiles(&mut map, PART, (1, PART), |mut tile| {
        let part = tile.rows().start;
        tile.row(part).fill(part as u8);
    });
    Ok(map)
}

/// Reads all of `window`, the threads part after part.
fn read(isa: Isa, pool: &mut Pool, window: &[u8]) {
    let parts: Vec<&[u8]> = window.chunks(PART).collect();
    pool.run(parts.len(), &|part| {
        let work = Sum(bytemuck::cast_slice(parts[part]));
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => run(lanes::avx512::Avx512::detect(), work),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => run(lanes::avx2::Avx2::detect(), work),
            _ => run(Some(Plain), work),
        }
    });
}

/// Runs `work` with the widest reads there are.
fn run<L: Lanes>(lanes: Option<L>, work: impl Work) {
    match lanes {
        Some(lanes) => lanes.run(work),
        None => Plain.run(work),
    }
}

/// Adds numbers up, in four places at once, which a processor's prefetchers like better than one.
struct Sum<'a>(&'a [u64]);

impl Work for Sum<'_> {
    #[inline(always)]
    fn work<L: Lanes>(self, _: L) {
        let quarter = self.0.len() / 4;
        let streams: [&[[u64; 32]]; 4] =
            std::array::from_fn(|at| self.0[at * quarter..][..quarter].as_chunks().0);
        let mut sums = [0u64; 32];
        for at in 0..streams[0].len() {
            for numbers in streams.iter().filter_map(|stream| stream.get(at)) {
                for (sum, number) in sums.iter_mut().zip(numbers) {
                    *sum = sum.wrapping_add(*number);
                }
            }
        }
        black_box(sums);
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_that_is_here_has_ceilings() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let Ceilings { int8_macs_per_second, f32_macs_per_second, read_bytes_per_second } =
                ceilings(isa, NonZero::<usize>::MIN).expect("room");
            for rate in [int8_macs_per_second, f32_macs_per_second] {
                assert_eq!(rate.is_some(), isa != Isa::Scalar, "{isa:?}");
                assert!(rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "{isa:?}: {rate:?}");
            }
            assert!(read_bytes_per_second.is_finite() && read_bytes_per_second > 0.0, "{isa:?}");
        }
    }

    #[test]
    fn the_best_of_two_is_the_best_of_each_rate() {
        let [a, b] = [(Some(1.0), None, 3.0), (Some(2.0), Some(4.0), 2.0)].map(|(int8, f32, read)| {
            Ceilings { int8_macs_per_second: int8, f32_macs_per_second: f32, read_bytes_per_second: read }
        });
        let best = a.best(b);
        assert_eq!(best, b.best(a));
        assert_eq!((best.int8_macs_per_second, best.f32_macs_per_second), (Some(2.0), Some(4.0)));
        assert_eq!(best.read_bytes_per_second, 3.0);
    }
}
