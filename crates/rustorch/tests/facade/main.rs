//! The facade beside the engine that it drives, and beside values from outside.

mod chats;
mod embeddings;
mod errors;
mod examples;
mod external;
mod requests;
mod sharing;
mod texts;

use std::sync::LazyLock;

use rustorch::{BackendName, Model, Options};

/// The demo model on the CPU.
fn demo() -> Model {
    static DEMO: LazyLock<Model> = LazyLock::new(|| options().demo().expect("the demo model"));
    DEMO.clone()
}

fn options() -> Options {
    Model::options().backend(BackendName::CPU).threads(2)
}
