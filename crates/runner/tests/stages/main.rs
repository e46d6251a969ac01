//! Models on several devices.

mod common;
mod deploy;
mod pipeline;
mod tensor;
