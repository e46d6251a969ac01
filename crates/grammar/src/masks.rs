//! Threads that compute masks while the model computes a step.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

/// A mask takes some ten microseconds: a few threads serve many requests.
const THREADS: usize = 2;

type Job = Box<dyn FnOnce() + Send>;

/// A few threads, started with the first job. They end when this is dropped.
#[derive(Default)]
pub(crate) struct Masks(OnceLock<Option<Mutex<Sender<Job>>>>);

impl Masks {
    /// Runs `work` on another thread, or on this one if the system starts none.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Receiver<T> {
        let (answer, result) = mpsc::sync_channel(1);
        let job: Job = Box::new(move || {
            // The request may have ended meanwhile.
            let _ = answer.send(work());
        });
        match self.0.get_or_init(start) {
            Some(jobs) => {
                let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(mpsc::SendError(job)) = jobs.send(job) {
                    job();
                }
            }
            None => job(),
        }
        result
    }
}

fn start() -> Option<Mutex<Sender<Job>>> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let queue = Arc::new(Mutex::new(queue));
    let work = |queue: Arc<Mutex<Receiver<Job>>>| {
        move || {
            let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
            while let Ok(job) = next() {
                job();
            }
        }
    };
    let started = (0..THREADS)
        .filter(|number| {
            let thread = thread::Builder::new().name(format!("grammar-{number}"));
            thread.spawn(work(queue.clone())).is_ok()
        })
        .count();
    (started > 0).then(|| Mutex::new(jobs))
}
