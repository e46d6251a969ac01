//! The server over real connections, with the embedded model.

mod answers;
mod client;
mod mistakes;
mod responses;
mod together;
