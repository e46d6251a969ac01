//! The keys of an architecture in the file to be written.

use gguf::{Metadata, Value};

/// Writes keys with the architecture's prefix.
pub(crate) struct Keys<'a> {
    pub(crate) architecture: &'static str,
    /// For keys without the prefix.
    pub(crate) metadata: &'a mut Metadata,
}

impl Keys<'_> {
    /// Sets `ARCHITECTURE.name`.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.metadata.insert(format!("{}.{name}", self.architecture), value);
    }

    pub(crate) fn count(&mut self, name: &str, value: usize) {
        self.set(name, u32::try_from(value).unwrap_or(u32::MAX));
    }

    pub(crate) fn optional(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// A count for each layer: ggml's files store such lists in signed numbers.
    pub(crate) fn counts(&mut self, name: &str, values: impl IntoIterator<Item = usize>) {
        let values = values.into_iter().map(|value| i32::try_from(value).unwrap_or(i32::MAX));
        self.set(name, values.collect::<Vec<i32>>());
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.metadata.remove(&format!("{}.{name}", self.architecture));
    }
}
