//! The server over real connections, with the embedded model.

mod access;
mod answers;
mod anthropic;
mod client;
mod embeddings;
mod llama;
mod mistakes;
mod models;
mod ollama;
mod responses;
mod speculation;
mod together;
