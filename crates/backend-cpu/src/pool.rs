//! A work-stealing thread pool for the tasks of a phase.
//!
//! All parallel writes use it: results are split into disjoint rectangles ([`Tile`]) or rows, one per task. Each thread
//! starts with a contiguous range of tasks and steals from other ranges when its own is done. No result depends on the
//! execution order.
#![expect(unsafe_code, reason = "tasks borrow from the caller's stack, tiles and rows from matrices")]

use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use backend::lock;

/// Spins before a waiting thread sleeps or yields: about 0.1 ms, longer than the time between two phases.
const SPINS: usize = 2_000;

/// A thread pool; the caller's thread is one of its threads.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Number of jobs so far; workers wait for it to change.
    epoch: AtomicUsize,
    job: Mutex<Option<Job>>,
    /// Number of tasks started in each thread's range.
    taken: Vec<CachePadded>,
    running: AtomicUsize,
    sleeping: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    panicked: AtomicBool,
    stop: AtomicBool,
}

/// A counter padded to two cache lines, which CPUs prefetch in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded(AtomicUsize);

/// The task function of a [`Pool::run`] call and the number of tasks.
#[derive(Clone, Copy)]
struct Job {
    task: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

// SAFETY: the function is `Sync`, and `Pool::run` keeps it alive until all workers are done.
unsafe impl Send for Job {}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks", self.tasks)
    }
}

impl Pool {
    /// A pool of `threads` threads including the caller's, or of as many as the system can start.
    pub(crate) fn new(threads: usize) -> Pool {
        let taken = (0..threads).map(|_| CachePadded::default()).collect();
        let shared = Arc::new(Shared { taken, ..Shared::default() });
        let worker = |i: usize| {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("rustorch-{i}"));
            thread.spawn(move || shared.work(i)).ok()
        };
        let workers = (1..threads).map_while(worker).collect();
        Pool { shared, workers }
    }

    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` once with each index below `tasks`, on all threads; returns when all are done.
    pub(crate) fn run(&mut self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() {
            (0..tasks).for_each(task);
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. Workers use the job while `running` is not 0, and this function neither
        // returns nor unwinds before that.
        let task = unsafe {
            std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), *const (dyn Fn(usize) + Sync + 'static)>(
                task,
            )
        };
        let job = Job { task, tasks };
        *lock(&shared.job) = Some(job);
        for part in &shared.taken {
            part.0.store(0, Ordering::Relaxed);
        }
        shared.running.store(self.workers.len(), Ordering::Relaxed);
        shared.epoch.fetch_add(1, Ordering::SeqCst);
        if shared.sleeping.load(Ordering::SeqCst) > 0 {
            let _awake = lock(&shared.sleep);
            shared.wake.notify_all();
        }
        shared.take_tasks(job, 0);
        wait_until(|| shared.running.load(Ordering::Acquire) == 0);
        assert!(!shared.panicked.swap(false, Ordering::Relaxed), "a task of the thread pool panicked");
    }

    /// Splits `matrix`, rows of `cols` values, into tiles of up to `tile` (rows, columns) and calls `work` with each.
    pub(crate) fn tiles<T: Send>(
        &mut self,
        matrix: &mut [T],
        cols: usize,
        tile: (usize, usize),
        work: impl Fn(Tile<'_, T>) + Sync,
    ) {
        self.tiles_of([Cut { matrix, cols, tile }], |_, tile| work(tile));
    }

    /// Splits several matrices into tiles and calls `work` with the matrix's index and the tile.
    pub(crate) fn tiles_of<'m, T: Send + 'm>(
        &mut self,
        cuts: impl IntoIterator<Item = Cut<'m, T>>,
        work: impl Fn(usize, Tile<'_, T>) + Sync,
    ) {
        let mut tasks = 0;
        let cut = |Cut { matrix, cols, tile }: Cut<'m, T>| {
            let rows = matrix.len() / cols;
            assert_eq!(matrix.len(), rows * cols, "the matrix has whole rows");
            let (first, down) = (tasks, rows.div_ceil(tile.0));
            tasks += cols.div_ceil(tile.1) * down;
            (first, SendPtr(matrix.as_mut_ptr()), down, (rows, cols), tile)
        };
        let matrices: Vec<_> = cuts.into_iter().map(cut).collect();
        self.run(tasks, &|task| {
            let number = matrices.partition_point(|&(first, ..)| first <= task) - 1;
            let (first, ref data, down, (rows, cols), tile) = matrices[number];
            let task = task - first;
            let (top, left) = (task % down * tile.0, task / down * tile.1);
            let (rows, tile_cols) = (top..rows.min(top + tile.0), left..cols.min(left + tile.1));
            work(number, Tile { data: data.0, stride: cols, rows, cols: tile_cols, matrix: PhantomData });
        });
    }

    /// Splits all `matrices`, (values, columns) with equal numbers of rows, into blocks of up to `tile` rows. Calls `work`
    /// with the row range and each matrix's rows.
    pub(crate) fn rows<T: Send>(
        &mut self,
        matrices: Vec<(&mut [T], usize)>,
        tile: usize,
        work: impl Fn(Range<usize>, &mut [&mut [T]]) + Sync,
    ) {
        let rows = matrices.first().map_or(0, |(matrix, cols)| matrix.len() / cols);
        let of = |(matrix, cols): (&mut [T], usize)| {
            assert_eq!(matrix.len(), rows * cols, "the matrix has the same rows");
            (SendPtr(matrix.as_mut_ptr()), cols)
        };
        let matrices: Vec<_> = matrices.into_iter().map(of).collect();
        self.run(rows.div_ceil(tile), &|task| {
            let rows = task * tile..rows.min((task + 1) * tile);
            let part = |(data, cols): &(SendPtr<T>, usize)| {
                // SAFETY: the rows are within the matrix, which stays borrowed until all tasks are done. No other task
                // accesses them.
                unsafe { std::slice::from_raw_parts_mut(data.0.add(rows.start * cols), rows.len() * cols) }
            };
            let mut parts: Vec<&mut [T]> = matrices.iter().map(part).collect();
            work(rows.clone(), &mut parts);
        });
    }
}

#[derive(Debug)]
pub(crate) struct Cut<'m, T> {
    /// Row-major.
    pub(crate) matrix: &'m mut [T],
    pub(crate) cols: usize,
    /// Maximum rows and columns of a tile.
    pub(crate) tile: (usize, usize),
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        {
            let _awake = lock(&self.shared.sleep);
            self.shared.wake.notify_all();
        }
        for worker in self.workers.drain(..) {
            // `run` has reported the worker's panic.
            let _ = worker.join();
        }
    }
}

impl Shared {
    fn work(&self, me: usize) {
        let mut seen = 0;
        loop {
            self.wait_for_job(seen);
            seen += 1;
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let job = *lock(&self.job);
            if let Some(job) = job {
                self.take_tasks(job, me);
            }
            self.running.fetch_sub(1, Ordering::Release);
        }
    }

    fn wait_for_job(&self, seen: usize) {
        for _ in 0..SPINS {
            if self.epoch.load(Ordering::Acquire) != seen {
                return;
            }
            std::hint::spin_loop();
        }
        let mut asleep = lock(&self.sleep);
        self.sleeping.fetch_add(1, Ordering::SeqCst);
        while self.epoch.load(Ordering::SeqCst) == seen {
            asleep = self.wake.wait(asleep).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.fetch_sub(1, Ordering::SeqCst);
    }

    /// Runs the tasks of thread `me`'s range, then steals the rest of the others'. Contiguous ranges avoid false sharing, and
    /// each thread reads weights sequentially.
    fn take_tasks(&self, job: Job, me: usize) {
        // SAFETY: see `Pool::run`.
        let task = unsafe { &*job.task };
        let tasks = AssertUnwindSafe(|| {
            let parts = self.taken.len();
            for part in (me..parts).chain(0..me) {
                let (start, end) = (part * job.tasks / parts, (part + 1) * job.tasks / parts);
                loop {
                    let number = start + self.taken[part].0.fetch_add(1, Ordering::Relaxed);
                    if number >= end {
                        break;
                    }
                    task(number);
                }
            }
        });
        if catch_unwind(tasks).is_err() {
            self.panicked.store(true, Ordering::Relaxed);
        }
    }
}

/// Spins, then yields, so that the awaited thread gets a core on a busy machine.
fn wait_until(done: impl Fn() -> bool) {
    let mut spins = 0;
    while !done() {
        if spins < SPINS {
            spins += 1;
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}

struct SendPtr<T>(*mut T);

// SAFETY: each task accesses its own tile or rows, which do not overlap.
unsafe impl<T: Send> Sync for SendPtr<T> {}

/// A rectangle of a matrix, writable by one task.
#[derive(Debug)]
pub(crate) struct Tile<'a, T> {
    data: *mut T,
    stride: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    matrix: PhantomData<&'a mut [T]>,
}

impl<T> Tile<'_, T> {
    pub(crate) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    pub(crate) fn cols(&self) -> Range<usize> {
        self.cols.clone()
    }

    /// Columns `self.cols()` of row `row`.
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(self.rows.contains(&row), "row {row} of {:?}", self.rows);
        // SAFETY: the rectangle is within the matrix, which is borrowed for the tile's lifetime. No other tile overlaps.
        unsafe {
            std::slice::from_raw_parts_mut(
                self.data.add(row * self.stride + self.cols.start),
                self.cols.len(),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_is_written_once() {
        for threads in [1, 2, 5] {
            let mut pool = Pool::new(threads);
            for (rows, cols, tile) in [(1, 1, (1, 1)), (7, 13, (2, 5)), (3, 64, (3, 16)), (40, 3, (8, 3))] {
                let mut matrix = vec![0usize; rows * cols];
                pool.tiles(&mut matrix, cols, tile, |mut tile| {
                    for row in tile.rows() {
                        let first = tile.cols().start;
                        for (i, x) in tile.row(row).iter_mut().enumerate() {
                            *x += 1 + row * cols + first + i;
                        }
                    }
                });
                assert_eq!(matrix, (1..=rows * cols).collect::<Vec<_>>(), "{threads} threads");
            }
        }
    }

    #[test]
    fn every_element_of_several_matrices_is_written_once() {
        for threads in [1, 3] {
            let mut pool = Pool::new(threads);
            // (rows, columns, tile); one matrix has no rows.
            let shapes = [(7, 13, (2, 5)), (0, 4, (1, 4)), (3, 64, (3, 16)), (1, 1, (1, 1))];
            let mut matrices: Vec<_> = shapes.iter().map(|&(rows, cols, _)| vec![0; rows * cols]).collect();
            let cuts = matrices.iter_mut().zip(shapes);
            let cuts = cuts.map(|(matrix, (_, cols, tile))| Cut { matrix: &mut matrix[..], cols, tile });
            pool.tiles_of(cuts, |number, mut tile| {
                for row in tile.rows() {
                    let first = tile.cols().start;
                    for (i, x) in tile.row(row).iter_mut().enumerate() {
                        *x += 1000 * (number + 1) + row * shapes[number].1 + first + i;
                    }
                }
            });
            for (number, (matrix, (rows, cols, _))) in matrices.iter().zip(shapes).enumerate() {
                let expected: Vec<_> = (0..rows * cols).map(|i| 1000 * (number + 1) + i).collect();
                assert_eq!(*matrix, expected, "matrix {number}, {threads} threads");
            }
        }
    }

    #[test]
    fn rows_of_several_matrices_come_together() {
        for (threads, rows, tile) in [(1, 5, 2), (3, 17, 6), (3, 6, 6), (2, 0, 6)] {
            let (mut a, mut b) = (vec![0; rows * 2], vec![0; rows * 5]);
            let matrices = vec![(&mut a[..], 2), (&mut b[..], 5)];
            Pool::new(threads).rows(matrices, tile, |rows, parts| {
                assert!(rows.start.is_multiple_of(tile) && rows.len() <= tile);
                for (part, cols) in parts.iter_mut().zip([2, 5]) {
                    assert_eq!(part.len(), rows.len() * cols);
                    part.iter_mut().enumerate().for_each(|(i, x)| *x += 1 + rows.start * cols + i);
                }
            });
            assert_eq!(a, (1..=rows * 2).collect::<Vec<_>>());
            assert_eq!(b, (1..=rows * 5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn workers_that_fell_asleep_wake_up() {
        let mut pool = Pool::new(3);
        for _ in 0..5 {
            std::thread::sleep(std::time::Duration::from_millis(20));
            let sum = AtomicUsize::new(0);
            pool.run(100, &|i| {
                sum.fetch_add(i, Ordering::Relaxed);
            });
            assert_eq!(sum.into_inner(), 4950);
        }
    }

    #[test]
    fn a_panic_in_a_task_reaches_the_caller_and_the_pool_lives_on() {
        let mut pool = Pool::new(2);
        let caught = catch_unwind(AssertUnwindSafe(|| pool.run(10, &|i| assert_ne!(i, 7))));
        assert!(caught.is_err());
        let sum = AtomicUsize::new(0);
        pool.run(10, &|i| {
            sum.fetch_add(i, Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 45);
    }
}
