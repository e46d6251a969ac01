//! Observers of values: of any value of the graph, by name, or of a prompt's logits.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ids::RequestId;

/// Rows of a value that a step has computed.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The value's name in the model's graph; the graph's output for logits.
    pub name: &'a str,
    /// Where each row belongs.
    pub rows: &'a [ObservedRow],
    /// `[rows, cols]`, borrowed from the backend.
    pub values: &'a [f32],
}

/// A row of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservedRow {
    /// The request.
    pub request: RequestId,
    /// The position in its prompt and answer.
    pub position: usize,
    /// The token there.
    pub token: u32,
}

impl<'a> Observed<'a> {
    /// The rows, each with its values.
    pub fn iter(self) -> impl Iterator<Item = (ObservedRow, &'a [f32])> {
        let cols = self.values.len() / self.rows.len().max(1);
        self.rows.iter().copied().zip(self.values.chunks_exact(cols.max(1)))
    }
}

/// A function that receives values. Breaking cancels the request whose rows it was shown.
#[derive(Clone)]
pub struct Observer(Arc<Mutex<Observe>>);

type Observe = dyn FnMut(Observed<'_>) -> ControlFlow<()> + Send;

impl Observer {
    /// Calls `observer`.
    pub fn new(observer: impl FnMut(Observed<'_>) -> ControlFlow<()> + Send + 'static) -> Observer {
        Observer(Arc::new(Mutex::new(observer)))
    }

    pub(crate) fn show(&self, observed: Observed<'_>) -> ControlFlow<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)(observed)
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
