//! Compiles grammars with a deadline, and keeps the last ones.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::gate::Gates;
use crate::schema::{self, SchemaError, SchemaProblem};
use crate::source::Hash;
use crate::vocabulary::Vocabulary;
use crate::{Error, Grammar, Source};

/// Stack of a thread that compiles: llguidance takes some ten KiB for each definition of a schema. Unused pages take no memory.
const STACK: usize = 256 << 20;

/// Limits of a [`Compiler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompilerOptions {
    /// How long a compilation may take, with waiting for others.
    pub deadline: Duration,
    /// Grammars that are compiled at once, those beyond their deadline included.
    pub threads: usize,
    /// Grammars kept for later requests.
    pub kept: usize,
}

impl Default for CompilerOptions {
    fn default() -> CompilerOptions {
        CompilerOptions { deadline: Duration::from_secs(10), threads: 4, kept: 64 }
    }
}

/// Compiles grammars for a vocabulary. Threads may share it.
#[derive(Debug)]
pub struct Compiler {
    vocabulary: Arc<Vocabulary>,
    gates: Arc<Gates>,
    options: CompilerOptions,
    /// The last ones used, the latest at the end.
    kept: Mutex<VecDeque<(Hash, Grammar)>>,
    slots: Arc<Slots>,
}

impl Compiler {
    /// With default options.
    pub fn new(vocabulary: Arc<Vocabulary>) -> Compiler {
        Compiler::with(vocabulary, CompilerOptions::default())
    }

    /// With these options.
    pub fn with(vocabulary: Arc<Vocabulary>, options: CompilerOptions) -> Compiler {
        let slots = Slots { free: Mutex::new(options.threads), freed: Condvar::new() };
        Compiler {
            vocabulary,
            gates: Arc::default(),
            options,
            kept: Mutex::default(),
            slots: Arc::new(slots),
        }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Arc<Vocabulary> {
        &self.vocabulary
    }

    /// Compiles `source` on another thread, unless the grammar is kept. Blocks until the deadline at most. Fails if the source is
    /// broken, too large, or cannot be enforced; if its compilation takes too long, or others are compiled.
    pub fn compile(&self, source: &Source) -> Result<Grammar, Error> {
        let hash = source.hash()?;
        if let Some(grammar) = self.find(&hash) {
            return Ok(grammar);
        }
        let grammar = self.compile_elsewhere(source.clone())?;
        let kept = &mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(other, _)| *other != hash);
        kept.push_back((hash, grammar.clone()));
        kept.drain(..kept.len().saturating_sub(self.options.kept));
        Ok(grammar)
    }

    /// `schema` without what cannot be enforced, and why that is. Blocks as [`Compiler::compile`].
    pub fn relaxed(&self, schema: &Value) -> (Value, Vec<SchemaError>) {
        let (mut schema, mut left_open) = schema::relaxed(schema);
        let compiled = |schema: &Value| self.compile(&Source::JsonSchema(schema.to_string()));
        if compiled(&schema).is_ok() {
            return (schema, left_open);
        }
        let mut places = Vec::new();
        schema::without_one_of(&mut schema, "", &mut places);
        left_open.extend(places.into_iter().map(|pointer| {
            let advice = "its alternatives may hold at once: they are those of `anyOf`";
            SchemaError { pointer, problem: SchemaProblem::Refused { keyword: "oneOf".to_owned(), advice } }
        }));
        if let Err(error) = compiled(&schema) {
            let problem = SchemaProblem::NotEnforced(error.to_string());
            left_open.push(SchemaError { pointer: String::new(), problem });
            schema = json!({});
        }
        (schema, left_open)
    }

    fn find(&self, hash: &Hash) -> Option<Grammar> {
        let kept = &mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().position(|(other, _)| other == hash)?;
        let entry = kept.remove(found)?;
        let grammar = entry.1.clone();
        kept.push_back(entry);
        Some(grammar)
    }

    fn compile_elsewhere(&self, source: Source) -> Result<Grammar, Error> {
        let CompilerOptions { deadline, threads, .. } = self.options;
        let (what, began) = (source.name(), Instant::now());
        let slot = self.slots.take(deadline).ok_or(Error::Busy { threads })?;
        let (answer, result) = mpsc::sync_channel(1);
        let (vocabulary, gates) = (self.vocabulary.clone(), self.gates.clone());
        let work = move || {
            // Nobody waits for it after the deadline.
            let _ = answer.send(Grammar::new(vocabulary, gates, &source));
            drop(slot);
        };
        let started = thread::Builder::new().name("grammar".into()).stack_size(STACK).spawn(work);
        if started.is_err() {
            return Err(Error::Busy { threads });
        }
        let left = deadline.saturating_sub(began.elapsed());
        result.recv_timeout(left).unwrap_or_else(|error| match error {
            RecvTimeoutError::Timeout => Err(Error::Deadline { what, deadline }),
            RecvTimeoutError::Disconnected => {
                Err(Error::Compile { what, why: "its compilation panicked; report the grammar".to_owned() })
            }
        })
    }
}

#[derive(Debug)]
struct Slots {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Slot(Arc<Slots>);

impl Slots {
    fn take(self: &Arc<Slots>, deadline: Duration) -> Option<Slot> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.freed.wait_timeout_while(free, deadline, |free| *free == 0);
        let mut free = waited.unwrap_or_else(PoisonError::into_inner).0;
        *free = free.checked_sub(1)?;
        Some(Slot(self.clone()))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
