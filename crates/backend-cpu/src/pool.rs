//! A pool of threads that share the tasks of one phase after another.
//!
//! Every parallel write of this backend goes through it: results are cut into rectangles, each handed to one task
//! as its own [`Tile`], or into rows. Each thread begins with a part of the tasks that lie together, and takes from
//! the others' parts when it is done with its own; no result depends on it.
#![expect(unsafe_code, reason = "tasks borrow from the caller's stack, tiles and rows from matrices")]

use std::marker::PhantomData;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

/// How often a thread looks whether what it waits for has happened before it sleeps or lets others
/// run: about 0.1 ms, longer than the time between two phases.
const SPINS: usize = 2_000;

/// Threads that wait for tasks; the caller's thread works too.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// What the caller and the workers share.
#[derive(Debug, Default)]
struct Shared {
    /// Counts jobs; a worker that has seen `n` waits for `n + 1`.
    epoch: AtomicUsize,
    job: Mutex<Option<Job>>,
    /// How many tasks of each thread's part have been taken.
    taken: Vec<Alone>,
    running: AtomicUsize,
    sleeping: AtomicUsize,
    sleep: Mutex<()>,
    wake: Condvar,
    panicked: AtomicBool,
    stop: AtomicBool,
}

/// A counter that shares no cache lines, nor those that processors fetch in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicUsize);

/// A task function of [`Pool::run`], which outlives every use of it, and how often to call it.
#[derive(Clone, Copy)]
struct Job {
    task: *const (dyn Fn(usize) + Sync),
    tasks: usize,
}

// SAFETY: the function is `Sync`, and `Pool::run` keeps it alive until all workers are done with it.
unsafe impl Send for Job {}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tasks", self.tasks)
    }
}

impl Pool {
    /// A pool of `threads` threads, the caller's among them, or of as many as the system starts.
    pub(crate) fn new(threads: usize) -> Pool {
        let taken = (0..threads).map(|_| Alone::default()).collect();
        let shared = Arc::new(Shared { taken, ..Shared::default() });
        let worker = |i: usize| {
            let shared = shared.clone();
            let thread = std::thread::Builder::new().name(format!("rustorch-{i}"));
            thread.spawn(move || shared.work(i)).ok()
        };
        let workers = (1..threads).map_while(worker).collect();
        Pool { shared, workers }
    }

    /// Threads, the caller's among them.
    pub(crate) fn threads(&self) -> usize {
        self.workers.len() + 1
    }

    /// Calls `task` with every number below `tasks`, each once, on all threads; returns when all are done.
    pub(crate) fn run(&mut self, tasks: usize, task: &(dyn Fn(usize) + Sync)) {
        if tasks <= 1 || self.workers.is_empty() {
            (0..tasks).for_each(task);
            return;
        }
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes. Workers take the job while `running` is not 0, and this
        // function does not return, nor unwind, before it is.
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

    /// Cuts `matrix`, rows of `cols` values, into tiles of up to `tile` (rows, columns) and gives each
    /// to one call of `work`.
    pub(crate) fn tiles<T: Send>(
        &mut self,
        matrix: &mut [T],
        cols: usize,
        tile: (usize, usize),
        work: impl Fn(Tile<'_, T>) + Sync,
    ) {
        self.tiles_of([Cut { matrix, cols, tile }], |_, tile| work(tile));
    }

    /// Cuts several matrices into tiles and gives each to one call of `work`, with the matrix's number.
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
            let (rows, cols_of_tile) = (top..rows.min(top + tile.0), left..cols.min(left + tile.1));
            work(number, Tile { data: data.0, stride: cols, rows, cols: cols_of_tile, matrix: PhantomData });
        });
    }

    /// Gives up to `tile` rows of all `matrices`, which have as many rows each, to one call of `work`: which
    /// rows, and the numbers of each matrix. A matrix is its numbers and its columns.
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
                // SAFETY: these rows lie within the matrix, which is borrowed until all tasks are done, and no
                // other task has any of them.
                unsafe { std::slice::from_raw_parts_mut(data.0.add(rows.start * cols), rows.len() * cols) }
            };
            let mut parts: Vec<&mut [T]> = matrices.iter().map(part).collect();
            work(rows.clone(), &mut parts);
        });
    }
}

/// How a matrix is cut into tiles.
#[derive(Debug)]
pub(crate) struct Cut<'m, T> {
    /// Its rows, one after the other.
    pub(crate) matrix: &'m mut [T],
    pub(crate) cols: usize,
    /// Rows and columns of a tile, at most.
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
            // A worker's panic has been reported by `run`.
            let _ = worker.join();
        }
    }
}

impl Shared {
    /// What thread `me` does until the pool is dropped.
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

    /// Does the tasks of the part of thread `me`, then those that are left of the others'. A part is a range of
    /// neighbouring tasks: threads then write far from each other, and each reads one sequence of weights.
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spins, then lets others run: on a busy machine the thread waited for may not have a core.
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

// SAFETY: every task makes its own tile or rows of the pointer, and no two overlap.
unsafe impl<T: Send> Sync for SendPtr<T> {}

/// A rectangle of a matrix that one task may write.
#[derive(Debug)]
pub(crate) struct Tile<'a, T> {
    data: *mut T,
    stride: usize,
    rows: Range<usize>,
    cols: Range<usize>,
    matrix: PhantomData<&'a mut [T]>,
}

impl<T> Tile<'_, T> {
    /// The rows of the matrix it covers.
    pub(crate) fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The columns of the matrix it covers.
    pub(crate) fn cols(&self) -> Range<usize> {
        self.cols.clone()
    }

    /// Its part of the matrix's row `row`: the columns `self.cols()`.
    pub(crate) fn row(&mut self, row: usize) -> &mut [T] {
        assert!(self.rows.contains(&row), "row {row} of {:?}", self.rows);
        // SAFETY: the rectangle lies within the matrix, which is borrowed for as long as the tile
        // lives, and no other tile has these columns of this row.
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
            // Rows, columns, tile; of one there are no rows.
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
            let (mut narrow, mut wide) = (vec![0; rows * 2], vec![0; rows * 5]);
            let matrices = vec![(&mut narrow[..], 2), (&mut wide[..], 5)];
            Pool::new(threads).rows(matrices, tile, |rows, parts| {
                assert!(rows.start.is_multiple_of(tile) && rows.len() <= tile);
                for (part, cols) in parts.iter_mut().zip([2, 5]) {
                    assert_eq!(part.len(), rows.len() * cols);
                    part.iter_mut().enumerate().for_each(|(i, x)| *x += 1 + rows.start * cols + i);
                }
            });
            assert_eq!(narrow, (1..=rows * 2).collect::<Vec<_>>());
            assert_eq!(wide, (1..=rows * 5).collect::<Vec<_>>());
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
