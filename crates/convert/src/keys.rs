//! The keys of an architecture in the file to be written.

use gguf::{Array, Metadata, Value};

/// Writes keys with the architecture's prefix.
pub(crate) struct Keys<'a> {
    architecture: &'static str,
    metadata: &'a mut Metadata,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(architecture: &'static str, metadata: &'a mut Metadata) -> Keys<'a> {
        Keys { architecture, metadata }
    }

    /// Sets `ARCHITECTURE.name`.
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.metadata.insert(format!("{}.{name}", self.architecture), value);
    }

    /// Sets a count, which is stored in 32 bits.
    pub(crate) fn count(&mut self, name: &str, value: usize) {
        self.set(name, Value::U32(u32::try_from(value).unwrap_or(u32::MAX)));
    }

    /// Sets it if there is a value.
    pub(crate) fn optional(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    /// A count for each layer: ggml's files store such lists in signed numbers.
    pub(crate) fn counts(&mut self, name: &str, values: impl IntoIterator<Item = usize>) {
        let values = values.into_iter().map(|value| i32::try_from(value).unwrap_or(i32::MAX)).collect();
        self.set(name, Value::Array(Array::I32(values)));
    }

    pub(crate) fn bools(&mut self, name: &str, values: Vec<bool>) {
        self.set(name, Value::Array(Array::Bool(values)));
    }

    /// Removes a key that the common ones set.
    pub(crate) fn remove(&mut self, name: &str) {
        self.metadata.remove(&format!("{}.{name}", self.architecture));
    }

    /// All metadata, for keys without the prefix.
    pub(crate) fn metadata(&mut self) -> &mut Metadata {
        self.metadata
    }
}
