//! A loaded model.

use std::path::Path;
use std::sync::Arc;

use chat::Message;
use engine::models::Pooling;
use engine::tokenizer::Encode;
use engine::{Engine, Limits, Normalization};
use grammar::Grammar;

use crate::chat::Chat;
use crate::driver::Monitor;
use crate::error::Field;
use crate::generate::{Batch, Generate};
use crate::loaded::Loaded;
use crate::options::{Options, Source};
use crate::prepare::Prepared;
use crate::request::{Conversation, Input, Request};
use crate::stream::Stream;
use crate::{Error, GrammarSource, Result};

/// A loaded model. Clones share it, also between threads.
#[derive(Clone, Debug)]
pub struct Model(pub(crate) Arc<Loaded>);

impl Options {
    /// Opens a GGUF file with these options. See [`Model::open`].
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open(self, path: impl AsRef<Path>) -> Result<Model> {
        Ok(Model(Loaded::new(Source::File(path.as_ref().to_owned()), self)?))
    }

    /// Loads the demo model with these options. See [`Model::demo`].
    ///
    /// # Errors
    /// As [`Model::demo`].
    #[cfg(feature = "demo-model")]
    pub fn demo(self) -> Result<Model> {
        Ok(Model(Loaded::new(Source::Demo, self)?))
    }
}

impl Model {
    /// Opens a GGUF file, the first of a split one, and loads it with default [`Options`].
    ///
    /// The file stays mapped, and must not change while the model is in use; a step after a change is an error.
    ///
    /// # Errors
    /// If the file cannot be read, its model is not supported, or it does not fit in memory.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        Options::default().open(path)
    }

    /// Loads a small model that is part of the program: for first steps and for tests. It knows little.
    ///
    /// # Errors
    /// If memory is exhausted.
    #[cfg(feature = "demo-model")]
    pub fn demo() -> Result<Model> {
        Options::default().demo()
    }

    /// Context, devices and memory, to open a model with.
    pub fn options() -> Options {
        Options::default()
    }

    /// Continues a prompt: a text as it is, without the chat template, or a `Vec<u32>` of tokens.
    ///
    /// ```
    /// # fn main() -> rustorch::Result<()> {
    /// # let model = rustorch::Model::demo()?;
    /// for token in model.generate("The capital of Spain is").temperature(0.0).max_tokens(3) {
    ///     print!("{}", token?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn generate(&self, prompt: impl Into<Input>) -> Generate {
        Generate::new(self.0.clone(), prompt.into())
    }

    /// Continues several prompts at once: a step computes a token of each, which takes little longer than one of them alone.
    pub fn batch(&self, prompts: impl IntoIterator<Item = impl Into<Input>>) -> Batch {
        Batch::new(self.0.clone(), prompts.into_iter().map(Into::into).collect())
    }

    /// Answers messages by the model's chat template.
    ///
    /// ```
    /// # fn main() -> rustorch::Result<()> {
    /// # let model = rustorch::Model::demo()?;
    /// use rustorch::Message;
    ///
    /// let messages = vec![Message::new("system", "Be brief."), Message::new("user", "What is the capital of Italy?")];
    /// let completion = model.answer(messages).temperature(0.0).complete()?;
    /// println!("{} [{} tokens]", completion.text, completion.end.usage.generated_tokens);
    /// # assert!(completion.text.contains("Rome"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn answer(&self, messages: Vec<Message>) -> Generate {
        Generate::new(self.0.clone(), Conversation::new(messages).into())
    }

    /// Submits a request: renders and encodes its prompt, compiles its grammar, and queues it.
    ///
    /// # Errors
    /// If the chat template, the format or the tools reject the request. The stream's first item is an error if a parameter is
    /// invalid, or the prompt does not fit the context.
    pub fn submit(&self, request: Request) -> Result<Stream> {
        self.prepare(request)?.submit()
    }

    /// Renders and encodes the prompt of a request, which may take a second: for those who do so on threads of their own.
    ///
    /// # Errors
    /// If the chat template or the tools reject the request.
    pub fn prepare(&self, request: Request) -> Result<Prepared> {
        self.0.prepare(request)
    }

    /// Submits requests that this model has prepared: all of them are accepted or none. Their answers are numbered one after the
    /// other. Compiles grammars, which may take seconds.
    ///
    /// # Errors
    /// As [`Prepared::submit`], and if another model has prepared a request.
    pub fn submit_all(&self, requests: Vec<Prepared>) -> Result<Stream> {
        self.0.submit(requests)
    }

    /// The prompt of a conversation as the chat template writes it.
    ///
    /// # Errors
    /// If the template rejects the conversation.
    pub fn prompt_text(&self, conversation: Conversation) -> Result<String> {
        self.0.prompt_text(conversation)
    }

    /// Number of tokens of a conversation's prompt, even if they do not fit the context.
    ///
    /// # Errors
    /// If the template rejects the conversation, or the model cannot be given its tools.
    pub fn count_tokens(&self, conversation: Conversation) -> Result<usize> {
        self.0.count_tokens(conversation)
    }

    /// Drives an engine that is loaded. A monitor watches its steps.
    ///
    /// # Errors
    /// If there is no thread for it.
    pub fn from_engine(engine: Engine, monitor: Option<Box<dyn Monitor>>) -> Result<Model> {
        Ok(Model(Loaded::from_engine(engine, monitor)?))
    }

    /// Calls `work` with the engine between two steps, on the engine's thread.
    ///
    /// # Errors
    /// If the model computes embeddings, or has failed.
    pub fn with_engine<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T> {
        self.0.driver()?.call(work)
    }

    /// Bytes of the longest text that the context can hold; `None` for a model that only computes embeddings.
    pub fn max_text_bytes(&self) -> Option<usize> {
        self.0.max_text_bytes()
    }

    /// Checks whether a text of so many bytes can fit the context, before it is read or encoded.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check_text(&self, bytes: usize) -> Result<()> {
        self.0.check_bytes(bytes)
    }

    /// Ends all requests with [`Error::Closed`].
    pub fn close(&self) {
        if let Ok(driver) = self.0.driver() {
            driver.abort(Error::Closed);
        }
    }

    /// Whether the model has failed, as when its file has changed: it answers nothing any more.
    pub fn has_failed(&self) -> bool {
        self.0.driver().is_ok_and(|driver| driver.has_failed())
    }

    /// Begins a conversation.
    pub fn chat(&self) -> Chat {
        Chat::new(self.0.clone())
    }

    /// Compiles a JSON schema, a regular expression or a grammar, of which texts cannot depart. The last ones are kept.
    ///
    /// ```
    /// # fn main() -> rustorch::Result<()> {
    /// # let model = rustorch::Model::demo()?;
    /// use rustorch::GrammarSource;
    ///
    /// let colour = model.grammar(&GrammarSource::JsonSchema(r#"{"enum": ["red", "green", "blue"]}"#.into()))?;
    /// let json = model.generate("The sky is ").grammar(&colour).temperature(0.0).text()?;
    /// let colour: String = serde_json::from_str(&json).expect("JSON of the schema");
    /// # assert!(["red", "green", "blue"].contains(&&*colour));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the source is broken, too complex, or asks for something that cannot be enforced: nothing is silently ignored.
    pub fn grammar(&self, source: &GrammarSource) -> Result<Grammar> {
        self.0.grammars()?.compile(source).map_err(|error| Error::grammar(Field::Format, error))
    }

    /// The embedding of each text. Its Euclidean length is 1, so that the dot product of two is their cosine similarity.
    ///
    /// Embedding models pool as their file says. For a model that writes text, it is the mean of the tokens' last hidden states;
    /// its first use loads the model once more.
    ///
    /// # Errors
    /// If a text is empty or longer than the context, or memory is exhausted.
    pub fn embed(&self, texts: &[impl AsRef<str>]) -> Result<Vec<Vec<f32>>> {
        let encode = Encode { add_special: true, parse_special: false };
        let tokens = |text: &_| self.0.model().tokenizer().encode(AsRef::<str>::as_ref(text), encode);
        let tokens: Vec<Vec<u32>> = texts.iter().map(tokens).collect();
        self.0.with_embedder(|embedder| {
            let mut embeddings = embedder.embed(&tokens)?;
            if embedder.model().config().pooling != Some(Pooling::Rank) {
                embeddings.iter_mut().for_each(|embedding| Normalization::P(2).apply(embedding));
            }
            Ok(embeddings)
        })
    }

    /// How well each document answers `query`: the higher the better, in the order of `documents`.
    ///
    /// # Errors
    /// If the model is no reranker, a query and a document are longer than the context, or memory is exhausted.
    pub fn rerank(&self, query: &str, documents: &[impl AsRef<str>]) -> Result<Vec<f32>> {
        let model = self.0.model();
        if model.config().pooling != Some(Pooling::Rank) {
            return Err(Error::NoReranker { file: model.file().file().to_owned() });
        }
        let tokens = documents.iter().map(|document| model.rerank_tokens(query, document.as_ref()));
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        // Of several labels, the first is relevance.
        let relevance = |scores: Vec<f32>| scores.first().copied().unwrap_or(f32::NAN);
        self.0.with_embedder(|embedder| Ok(embedder.embed(&tokens)?.into_iter().map(relevance).collect()))
    }

    /// The tokens of a text, without BOS. Text never becomes a special token.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        self.0.model().tokenizer().encode(text, Encode { add_special: false, parse_special: false })
    }

    /// The text of tokens, without control tokens.
    pub fn detokenize(&self, tokens: &[u32]) -> String {
        self.0.model().tokenizer().decode(tokens)
    }

    /// The context in tokens; `None` for a model that only computes embeddings.
    pub fn n_ctx(&self) -> Option<usize> {
        self.limits().map(|limits| limits.n_ctx)
    }

    /// The limits of the engine; `None` for a model that only computes embeddings.
    pub fn limits(&self) -> Option<Limits> {
        self.0.limits()
    }

    /// The opened file: metadata, graph, tokenizer, chat template.
    pub fn file(&self) -> &Arc<engine::Model> {
        self.0.model()
    }
}

impl Chat {
    /// Continues with another model. Messages and parameters stay; the next turn computes the whole conversation.
    pub fn move_to(&mut self, model: &Model) {
        self.set_model(model.0.clone());
    }
}
