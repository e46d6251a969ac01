//! The server over real connections, with the embedded model.

mod answers;
mod client;
mod llama;
mod mistakes;
mod ollama;
mod together;
