//! The programs of all ranks, each with a thread of its own: a rank's sum waits for the other ranks.

use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use backend::{Error, Member, Outputs, Program, Step, Ticket};
use graph::{Graph, Value};

/// Runs steps on all ranks: the first in the thread of the caller, the others in threads of their own.
pub(super) struct GroupProgram {
    first: Box<dyn Program>,
    member: Member,
    others: Vec<Worker>,
    tapped: Vec<Tapped>,
    /// Whether the other ranks have a step that was not waited for.
    is_pending: bool,
}

/// A value that is read after steps.
pub(super) struct Tapped {
    name: String,
    ranks: Division,
    /// The columns of all ranks after the first, by rank.
    others: Vec<Vec<f32>>,
    /// The columns of all ranks side by side.
    gathered: OnceCell<Vec<f32>>,
}

/// How a value is divided over the ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Division {
    /// Each rank has all of it.
    Whole,
    /// Columns of each rank.
    Columns(Vec<usize>),
    /// Ranks have summands of what it is part of, or nothing.
    Nothing,
}

impl Tapped {
    pub(super) fn new(value: &Value, parts: &[&Graph]) -> Tapped {
        let cols = |part: &&Graph| Some(part.value(part.find(&value.name)?).cols);
        let ranks = match parts.iter().map(cols).collect::<Option<Vec<usize>>>() {
            Some(cols) if cols.iter().all(|&cols| cols == value.cols) => Division::Whole,
            Some(cols) if cols.iter().sum::<usize>() == value.cols => Division::Columns(cols),
            Some(_) | None => Division::Nothing,
        };
        Tapped { name: value.name.clone(), ranks, others: Vec::new(), gathered: OnceCell::new() }
    }

    fn is_split(&self) -> bool {
        matches!(self.ranks, Division::Columns(_))
    }

    /// The value, of which the first rank has `first`.
    fn read<'a>(&'a self, first: &'a [f32]) -> Result<&'a [f32], Error> {
        match &self.ranks {
            Division::Whole => Ok(first),
            Division::Columns(cols) => Ok(self.gathered.get_or_init(|| {
                let columns = [first].into_iter().chain(self.others.iter().map(Vec::as_slice));
                let mut columns: Vec<_> =
                    columns.zip(cols).map(|(values, &cols)| values.chunks_exact(cols)).collect();
                let mut all = Vec::new();
                for _ in 0..first.len() / cols[0] {
                    columns.iter_mut().filter_map(Iterator::next).for_each(|row| all.extend_from_slice(row));
                }
                all
            })),
            Division::Nothing => {
                let why = "is not computed on several devices: it is part of a sum over them";
                Err(Error::Value { name: self.name.clone(), why })
            }
        }
    }
}

impl GroupProgram {
    /// A program of those of all ranks, by rank.
    pub(super) fn new(
        programs: Vec<(Box<dyn Program>, Member)>,
        tapped: Vec<Tapped>,
    ) -> Result<GroupProgram, Error> {
        let read: Vec<String> =
            tapped.iter().filter(|tapped| tapped.is_split()).map(|tapped| tapped.name.clone()).collect();
        let mut programs = programs.into_iter();
        let (first, member) = programs.next().ok_or_else(|| Error::Shard("no device has a rank".into()))?;
        let others = programs.map(|(program, member)| Worker::new(program, member, read.clone())).collect();
        Ok(GroupProgram { first, member, others, tapped, is_pending: false })
    }

    /// Waits until the other ranks have ended their step.
    fn finish(others: &mut [Worker], tapped: &mut [Tapped]) -> Result<(), Error> {
        let mut result = Ok(());
        tapped.iter_mut().for_each(|tapped| tapped.others.clear());
        for worker in others {
            match worker.done.recv().unwrap_or_else(|_| Err(panicked())) {
                Ok(values) => {
                    let split = tapped.iter_mut().filter(|tapped| tapped.is_split());
                    split.zip(values).for_each(|(tapped, values)| tapped.others.push(values));
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}

impl Program for GroupProgram {
    fn submit(&mut self, step: &Step) -> Result<Ticket, Error> {
        step.check_features("tensor-parallel", super::SUPPORTED)?;
        let GroupProgram { first, member, others, tapped, is_pending } = self;
        if std::mem::take(is_pending) {
            GroupProgram::finish(others, tapped)?;
        }
        member.begin();
        tapped.iter_mut().for_each(|tapped| drop(tapped.gathered.take()));
        others.iter().for_each(|worker| worker.start(step));
        let submitted = first.submit(step);
        *is_pending = submitted.is_ok();
        submitted.inspect_err(|error| {
            member.fail(error);
            // The others end with the same error, or with the one that was there first.
            let _ = GroupProgram::finish(others, tapped);
        })
    }

    fn wait(&mut self, ticket: Ticket) -> Result<Outputs<'_>, Error> {
        let GroupProgram { first, member, others, tapped, is_pending } = self;
        let outputs = first.wait(ticket).inspect_err(|error| member.fail(error));
        if std::mem::take(is_pending) {
            GroupProgram::finish(others, tapped)?;
        }
        outputs
    }

    fn read(&self, name: &str) -> Result<&[f32], Error> {
        match self.tapped.iter().find(|tapped| tapped.name == name) {
            Some(tapped) if tapped.ranks == Division::Nothing => tapped.read(&[]),
            Some(tapped) => tapped.read(self.first.read(name)?),
            None => self.first.read(name),
        }
    }
}

/// A thread that runs the steps of a rank.
struct Worker {
    steps: Option<Sender<Step>>,
    /// Receives the values to read of each step.
    done: Receiver<Result<Vec<Vec<f32>>, Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    fn new(mut program: Box<dyn Program>, member: Member, read: Vec<String>) -> Worker {
        let (steps, to_run) = channel::<Step>();
        let (ended, done) = channel();
        let run = move || {
            let on_panic = OnPanic(member);
            for step in to_run {
                let values = |program: &dyn Program| {
                    read.iter().map(|name| Ok(program.read(name)?.to_vec())).collect::<Result<_, Error>>()
                };
                let result = program.run(&step).map(drop).and_then(|()| values(&*program));
                if let Err(error) = &result {
                    on_panic.0.fail(error);
                }
                if ended.send(result).is_err() {
                    break;
                }
            }
        };
        Worker { steps: Some(steps), done, thread: Some(thread::spawn(run)) }
    }

    fn start(&self, step: &Step) {
        // After a panic of the thread, the missing answer is the error.
        if let Some(steps) = &self.steps {
            let _ = steps.send(step.clone());
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.steps = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Ends the step of the others if the rank's thread panics.
struct OnPanic(Member);

impl Drop for OnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.fail(&panicked());
        }
    }
}

pub(super) fn panicked() -> Error {
    Error::Device { device: "a rank".to_owned(), why: "its thread has panicked".to_owned() }
}
