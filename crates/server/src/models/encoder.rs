//! A model that computes embeddings, or scores of documents.

use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use engine::models::Pooling;
use engine::{Embedder, Normalization};
use tokenizer::Encode;
use tokio::sync::oneshot;

use super::ModelInfo;
use crate::embedding::Cut;
use crate::error::{ApiError, FAILED};
use crate::metrics::Stats;

/// Texts of a request that are computed before it is another request's turn.
const TEXTS: usize = 16;

/// A model that computes embeddings, on a thread of its own.
pub(crate) struct Encoder {
    info: ModelInfo,
    pub(crate) width: usize,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Deref for Encoder {
    type Target = ModelInfo;

    fn deref(&self) -> &ModelInfo {
        &self.info
    }
}

type Embeddings = Result<Vec<Vec<f32>>, ApiError>;

struct Job {
    texts: Vec<Vec<u32>>,
    done: Vec<Vec<f32>>,
    answer: oneshot::Sender<Embeddings>,
}

impl Encoder {
    pub(super) fn start(name: String, embedder: Embedder, stats: Arc<Stats>) -> std::io::Result<Encoder> {
        let (jobs, inbox) = mpsc::channel();
        let (info, width) =
            (ModelInfo::new(name, embedder.model().clone(), embedder.n_ctx()), embedder.width());
        let work = move || run(embedder, &inbox, &stats);
        let thread = thread::Builder::new().name("embedder".into()).spawn(work)?;
        Ok(Encoder { info, width, jobs: Some(jobs), thread: Some(thread) })
    }

    /// Whether it has failed: it answers nothing any more.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    pub(crate) fn is_reranker(&self) -> bool {
        self.file.config().pooling == Some(Pooling::Rank)
    }

    /// The tokens of `text`, as many as the model reads if it may be `cut`; `param` is its field, for errors. This takes a while and
    /// must not block the threads of the async runtime.
    pub(crate) fn encode(&self, text: &str, cut: Cut, param: &str) -> Result<Vec<u32>, ApiError> {
        // So many bytes have at least as many tokens as the model reads: others need not be encoded.
        let bytes = self.n_ctx.saturating_mul(self.file.tokenizer().longest_token().max(1));
        let text = match cut {
            Cut::Never => {
                self.check_bytes(text.len(), param)?;
                text
            }
            Cut::End => &text[..text.floor_char_boundary(bytes)],
            Cut::Start(_) => &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..],
        };
        let encode = Encode { add_special: true, parse_special: false };
        Ok(self.fitting(self.file.tokenizer().encode(text, encode), cut))
    }

    /// The tokens that stay of `text` if it may be cut. Tokens at the ends that the model has around every text stay.
    pub(crate) fn fitting(&self, mut text: Vec<u32>, cut: Cut) -> Vec<u32> {
        let most = match cut {
            Cut::Never => return text,
            Cut::End => self.n_ctx,
            Cut::Start(most) => most.min(self.n_ctx),
        };
        let excess = text.len().saturating_sub(most);
        if excess == 0 {
            return text;
        }
        let tokenizer = self.file.tokenizer();
        let around = tokenizer.encode("", Encode { add_special: true, parse_special: false });
        let begins = usize::from(!around.is_empty() && text.first() == around.first()).min(most);
        let ends = usize::from(!around.is_empty() && text.last() == around.last()).min(most - begins);
        let from = match cut {
            Cut::Start(_) => begins,
            _ => text.len() - ends - excess,
        };
        text.drain(from..from + excess);
        text
    }

    /// The tokens by which `document` is scored for `query`; `param` is its field, for errors. This takes a while and must not
    /// block the threads of the async runtime.
    pub(crate) fn pair(&self, query: &str, document: &str, param: &str) -> Result<Vec<u32>, ApiError> {
        self.check_bytes(query.len() + document.len(), param)?;
        let tokens = self
            .file
            .rerank_tokens(query, document)
            .map_err(|error| ApiError::from_engine(&error, "query"))?;
        if tokens.len() <= self.n_ctx { Ok(tokens) } else { Err(self.too_long(tokens.len(), param)) }
    }

    /// Fails if so many bytes cannot fit the context, before they are encoded.
    fn check_bytes(&self, bytes: usize, param: &str) -> Result<(), ApiError> {
        let longest = self.file.tokenizer().longest_token().max(1);
        if bytes > self.n_ctx.saturating_mul(longest) {
            return Err(self.too_long(bytes.div_ceil(longest), param));
        }
        Ok(())
    }

    fn too_long(&self, found: usize, param: &str) -> ApiError {
        let n_ctx = self.n_ctx;
        let message = format!(
            "`{param}` is too large: it has {found} tokens or more, but this model reads at most {n_ctx} at once; shorten it"
        );
        ApiError { message, ..ApiError::too_long(found, n_ctx) }.at(param)
    }

    /// The first `width` values of the embedding of each text, of Euclidean length 1. As [`Encoder::compute`].
    pub(crate) async fn embeddings(
        &self,
        texts: Vec<Vec<u32>>,
        width: usize,
        param: impl Fn(usize) -> String,
    ) -> Embeddings {
        let mut embeddings = self.compute(texts, param).await?;
        for embedding in &mut embeddings {
            embedding.truncate(width);
            Normalization::P(2).apply(embedding);
        }
        Ok(embeddings)
    }

    /// The score of each pair of query and document: of several labels, the first is relevance. As [`Encoder::compute`].
    pub(crate) async fn scores(
        &self,
        pairs: Vec<Vec<u32>>,
        param: impl Fn(usize) -> String,
    ) -> Result<Vec<f32>, ApiError> {
        let scores = self.compute(pairs, param).await?;
        Ok(scores.into_iter().map(|scores| scores.first().copied().unwrap_or(f32::NAN)).collect())
    }

    /// The model's results, one for each text. Dropping the future cancels it. Fails if a text has no tokens, too many or
    /// unknown ones; `param` names the field of text number `n`.
    async fn compute(&self, texts: Vec<Vec<u32>>, param: impl Fn(usize) -> String) -> Embeddings {
        let n_vocab = self.file.config().vocab_size;
        for (number, text) in texts.iter().enumerate() {
            if text.is_empty() {
                return Err(ApiError::invalid(param(number), "has no tokens"));
            }
            if text.len() > self.n_ctx {
                return Err(self.too_long(text.len(), &param(number)));
            }
            if let Some(id) = text.iter().find(|&&id| id as usize >= n_vocab) {
                let why = format!("has the token {id}, but the vocabulary has {n_vocab} tokens");
                return Err(ApiError::invalid(param(number), why));
            }
        }
        let (answer, embeddings) = oneshot::channel();
        let job = Job { done: Vec::with_capacity(texts.len()), texts, answer };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        match embeddings.await {
            Ok(embeddings) if sent => embeddings,
            _ => Err(ApiError::internal(FAILED)),
        }
    }
}

impl Drop for Encoder {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It may have ended by itself.
            let _ = thread.join();
        }
    }
}

/// Computes some texts of each job in turn, until the senders are gone.
fn run(mut embedder: Embedder, inbox: &Receiver<Job>, stats: &Stats) {
    let mut jobs = VecDeque::new();
    loop {
        if jobs.is_empty() {
            stats.set_running(0);
            let Ok(job) = inbox.recv() else { return };
            jobs.push_back(job);
        }
        jobs.extend(inbox.try_iter());
        // They take turns.
        stats.set_running(jobs.len());
        let Some(mut job) = jobs.pop_front() else { continue };
        if job.answer.is_closed() {
            continue;
        }
        let begin = job.done.len();
        let end = job.texts.len().min(begin + TEXTS);
        match embedder.embed(&job.texts[begin..end]) {
            Ok(embeddings) => {
                stats.embedded(job.texts[begin..end].iter().map(Vec::len).sum());
                job.done.extend(embeddings);
            }
            // A caller that has left needs no answer, here and below.
            Err(error) => {
                let _ = job.answer.send(Err(ApiError::from_engine(&error, "input")));
                continue;
            }
        }
        if job.done.len() < job.texts.len() {
            jobs.push_back(job);
        } else {
            stats.computed();
            let _ = job.answer.send(Ok(job.done));
        }
    }
}
