//! The families that are built, and what they differ in.

use std::fmt;

use graph::Pairing;

/// A family of models, as `general.architecture` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Llama 1 to 3, TinyLlama, Mistral 7B and what shares their tensors (Touvron et al. 2023).
    Llama,
    /// Qwen 1.5, 2 and 2.5, dense (Yang et al. 2024).
    Qwen2,
}

impl Architecture {
    /// All of them.
    pub const ALL: [Architecture; 2] = [Architecture::Llama, Architecture::Qwen2];

    /// The architecture that `general.architecture` names, if it is built.
    pub fn from_name(name: &str) -> Option<Architecture> {
        Architecture::ALL.into_iter().find(|architecture| architecture.name() == name)
    }

    /// Its name, which is also what its keys begin with, such as `qwen2.block_count`.
    pub fn name(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
        }
    }

    /// The names of all, for people.
    pub fn names() -> String {
        Architecture::ALL.map(Architecture::name).join(", ")
    }

    /// Which columns of a head rotate together, in the order that rows of the file's tensors have.
    pub(crate) fn pairing(self) -> Pairing {
        match self {
            Architecture::Llama => Pairing::Interleaved,
            Architecture::Qwen2 => Pairing::Halves,
        }
    }

    /// Whether something is added to queries, keys and values before they rotate.
    pub fn has_qkv_bias(self) -> bool {
        self == Architecture::Qwen2
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
