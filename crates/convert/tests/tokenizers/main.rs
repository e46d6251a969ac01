//! Tokenizers of checkpoints to metadata, and back.

mod back;
mod folders;
mod hostile;
mod keys;
#[path = "../../examples/kinds/mod.rs"]
mod kinds;
