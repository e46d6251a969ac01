//! The server over real connections, with the embedded model.

mod answers;
mod anthropic;
mod client;
mod mistakes;
mod together;
