//! One turn of a chat, whatever the protocol: from a conversation to the answers that the engine generates.

use std::sync::Arc;

use chat::AnswerParser;

use crate::answer::Answers;
use crate::app::{App, Place};
use crate::conversation::{Conversation, Rendered};
use crate::error::ApiError;
use crate::http::Client;
use crate::job::{Job, Parameters};
use crate::models::Served;

/// What a protocol reads from a call.
pub(crate) struct Turn {
    pub(crate) conversation: Conversation,
    pub(crate) parameters: Parameters,
}

/// A turn that the engine has accepted.
pub(crate) struct Started {
    pub(crate) answers: Answers,
    /// The number of answers.
    pub(crate) n: usize,
    /// The ids of each prompt.
    pub(crate) prompts: Vec<Vec<u32>>,
    /// To be kept until the end.
    pub(crate) place: Place,
}

impl Turn {
    /// Renders the conversation and submits it. Fails if the server is full, or if the engine refuses it.
    pub(crate) async fn start(
        self,
        app: &Arc<App>,
        served: &Arc<Served>,
        client: &Client,
    ) -> Result<Started, ApiError> {
        let Turn { conversation, parameters } = self;
        let n = parameters.params.n;
        let place = app.place(client, n)?;
        let rendering = served.clone();
        let params = parameters.params.clone();
        let rendering = move || {
            rendering.model.prepare(&params);
            conversation.render(&rendering)
        };
        let Rendered { ids, prompt, demand, calls } = app.blocking(rendering).await??;
        let turn_end = prompt.turn_end().cloned();
        let parsers = (0..n).map(|_| prompt.parser(calls)).collect();
        let processors = match demand {
            None => Vec::new(),
            Some(demand) => {
                let compiling = served.clone();
                vec![app.compiling(move || demand.processor(&compiling)).await??]
            }
        };
        let prompts = vec![ids.clone()];
        let request = engine::Request { turn_end, processors, ..parameters.request(ids, client) };
        Started::submit(Job::choices(request, &parameters), prompts, parsers, place, served).await
    }
}

impl Started {
    /// Submits a job with these prompts, each of whose answers has a parser. Fails if the engine refuses it.
    pub(crate) async fn submit(
        job: Job,
        prompts: Vec<Vec<u32>>,
        parsers: Vec<AnswerParser>,
        place: Place,
        served: &Served,
    ) -> Result<Started, ApiError> {
        let n = parsers.len();
        let updates = job.submit(served).await?;
        place.charge(prompts.iter().map(Vec::len).sum());
        Ok(Started { answers: Answers::new(updates, parsers, place.meter()), n, prompts, place })
    }
}
