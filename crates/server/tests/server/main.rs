//! The server over real connections, with the embedded model.

mod access;
mod answers;
mod anthropic;
mod attacks;
mod client;
mod constraints;
mod defaults;
mod embeddings;
mod infill;
mod leniency;
mod llama;
mod mistakes;
mod models;
mod ollama;
mod progress;
mod prompt_end;
mod responses;
mod speculation;
mod together;
mod tools;
