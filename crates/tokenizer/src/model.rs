//! What turns text into ids: one of the algorithms.

use crate::bpe::BytePair;
use crate::spm::SentencePiece;

/// The algorithm, with its tables.
pub(crate) enum Model {
    SentencePiece(SentencePiece),
    BytePair(BytePair),
}
