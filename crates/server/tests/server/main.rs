//! The server over real connections, with the embedded model.

mod answers;
mod client;
mod embeddings;
mod mistakes;
mod models;
mod responses;
mod together;
