//! How well a model predicts a text.
//!
//! [`perplexity`] scores [`Windows`] of a text as `llama-perplexity` does. Log-probabilities can be written as a [`base`],
//! and compared with one of another model: the [`Divergence`].

pub mod base;
mod error;
mod perplexity;
mod statistics;
mod windows;

pub use error::{BaseError, Error};
pub use perplexity::{Beside, Score, perplexity};
pub use statistics::{Divergence, Estimate, PERCENTILES, Spread};
pub use windows::Windows;
