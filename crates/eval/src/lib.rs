//! How well a model predicts a text, and whether this machine computes it correctly.
//!
//! [`perplexity`] scores [`Windows`] of a text as `llama-perplexity` does. It writes log-probabilities as a [`base`], or
//! compares them with the base of another model: the [`Divergence`]. [`imatrix`] sums the inputs of matrices for
//! quantisation. [`verify`] compares backends with the reference.

pub mod base;
mod error;
pub mod imatrix;
mod perplexity;
mod statistics;
pub mod verify;
mod windows;

pub use error::Error;
pub use perplexity::{Beside, Score, perplexity};
pub use statistics::{Divergence, Estimate, Spread};
pub use windows::Windows;
