//! Errors, as clients see them.

use std::fmt::Display;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use engine::ParamError;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum StartError {
    #[error("cannot listen on {address}: {source}")]
    Listen { address: std::net::SocketAddr, source: std::io::Error },
    #[error("{message}")]
    Load { message: String },
    #[error("cannot start the threads of the server: {0}")]
    Threads(#[from] std::io::Error),
}

/// Why a request is not answered. A [shape](crate::shape) writes it as its protocol does.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    pub(crate) param: Option<String>,
}

/// The cause, from which status and codes follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Invalid,
    /// A field asks for what this server does not do.
    Unsupported,
    TooLong {
        prompt: usize,
        n_ctx: usize,
    },
    NoKey,
    /// A page of another site asks.
    Forbidden,
    NoModel,
    NoRoute,
    /// Another server of this protocol does it; this one does not, or was not told to.
    NotImplemented,
    Method,
    BodyTooLarge,
    MediaType,
    BodyTimeout,
    Limited {
        seconds: u64,
    },
    /// Too many requests wait.
    Busy,
    Stopping,
    Internal,
}

impl Kind {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::Invalid | Kind::Unsupported | Kind::TooLong { .. } => StatusCode::BAD_REQUEST,
            Kind::NoKey => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::NoModel | Kind::NoRoute => StatusCode::NOT_FOUND,
            Kind::NotImplemented => StatusCode::NOT_IMPLEMENTED,
            Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
            Kind::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Kind::Limited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Kind::Busy | Kind::Stopping => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn code(self) -> Option<&'static str> {
        match self {
            Kind::TooLong { .. } => Some("context_length_exceeded"),
            Kind::Unsupported => Some("unsupported_parameter"),
            Kind::NoKey => Some("invalid_api_key"),
            Kind::NoModel => Some("model_not_found"),
            Kind::Limited { .. } => Some("rate_limit_exceeded"),
            Kind::Busy | Kind::Stopping => Some("server_overloaded"),
            _ => None,
        }
    }

    fn retry_after(self) -> Option<u64> {
        match self {
            Kind::Limited { seconds } => Some(seconds),
            Kind::Busy | Kind::Stopping => Some(1),
            _ => None,
        }
    }
}

impl From<ParamError> for ApiError {
    fn from(error: ParamError) -> ApiError {
        ApiError::new(Kind::Invalid, error.to_string()).at(error.name)
    }
}

/// Why a server that ends refuses a request.
pub(crate) const STOPPING: &str = "server is shutting down, retry elsewhere";

/// A model that has failed is an internal error.
pub(crate) const FAILED: &str = "the model has failed, and the server's log says why; try again, and restart the server if it fails again";

impl ApiError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> ApiError {
        ApiError { kind, message: message.into(), param: None }
    }

    pub(crate) fn at(self, param: impl Into<String>) -> ApiError {
        ApiError { param: Some(param.into()), ..self }
    }

    /// The field `param` has a wrong value: it is the subject of `why`.
    pub(crate) fn invalid(param: impl Into<String>, why: impl Display) -> ApiError {
        let param = param.into();
        ApiError::new(Kind::Invalid, format!("`{param}` {why}")).at(param)
    }

    /// The field `param` asks for what this server does not do: it is the subject of `why`.
    pub(crate) fn unsupported(param: impl Into<String>, why: impl Display) -> ApiError {
        ApiError { kind: Kind::Unsupported, ..ApiError::invalid(param, why) }
    }

    pub(crate) fn internal(message: impl Into<String>) -> ApiError {
        ApiError::new(Kind::Internal, message)
    }

    /// The error of a request to a model, whose messages or prompt are in the field `input`, and whose format is in `format`.
    pub(crate) fn from_model(error: rustorch::Error, input: &str, format: &str) -> ApiError {
        use rustorch::{Error, Field};
        let at = |kind, field, message: &dyn Display| {
            let param = match field {
                Field::Messages => input,
                Field::Tools => "tools",
                Field::ToolChoice => "tool_choice",
                Field::Format => format,
            };
            ApiError::new(kind, format!("`{param}`: {message}")).at(param)
        };
        match error {
            Error::Engine { error } => ApiError::from_engine(&error, input),
            Error::Invalid { field, message } => at(Kind::Invalid, field, &message),
            Error::Unsupported { field, message } => at(Kind::Unsupported, field, &message),
            Error::TextTooLong { bytes, most, n_ctx } => {
                // At least so many tokens: each is the longest of the vocabulary.
                let tokens = bytes.div_ceil((most / n_ctx.max(1)).max(1));
                ApiError::too_long(tokens, n_ctx).at(input)
            }
            Error::Grammar { error: error @ grammar::Error::Busy { .. }, .. } => {
                ApiError::new(Kind::Busy, error.to_string())
            }
            Error::Grammar { field, error } => at(Kind::Invalid, field, &error),
            Error::Vocabulary(error) => ApiError::new(Kind::Unsupported, error.to_string()).at(format),
            Error::Closed => ApiError::new(Kind::Stopping, STOPPING),
            Error::Panicked => ApiError::internal(FAILED),
            error => ApiError::internal(error.to_string()),
        }
    }

    pub(crate) fn from_engine(error: &engine::Error, input: &str) -> ApiError {
        use engine::{Error, Refusal, SamplingError};
        let message = error.to_string();
        match error {
            Error::Prompt(Refusal::TooLong { tokens, n_ctx }) => {
                ApiError::too_long(*tokens, *n_ctx).at(input)
            }
            Error::NoTemplate { why } => {
                let message = format!("this model cannot chat: {why}; use /v1/completions");
                ApiError::new(Kind::Unsupported, message).at(input)
            }
            Error::Template(why) => {
                let message = format!("the model's chat template rejects the messages: {why}");
                ApiError::new(Kind::Invalid, message).at(input)
            }
            Error::MinTokens { .. } => ApiError::new(Kind::Invalid, message).at("min_tokens"),
            Error::Sampling(SamplingError::Parameter(error)) => error.clone().into(),
            Error::Sampling(SamplingError::Bias { .. }) => {
                ApiError::new(Kind::Invalid, message).at("logit_bias")
            }
            Error::Prompt(Refusal::Empty)
            | Error::Token { .. }
            | Error::EmptyStopString
            | Error::Sampling(SamplingError::RuledOut | SamplingError::Failed(_)) => {
                ApiError::new(Kind::Invalid, message)
            }
            // It may name files, which concern no client.
            _ => {
                tracing::error!("the model has failed: {message}");
                ApiError::internal(FAILED)
            }
        }
    }

    /// Clients tell this error by its words: those of the first half are OpenAI's, those of the second half llama-server's.
    pub(crate) fn too_long(tokens: usize, n_ctx: usize) -> ApiError {
        let message = format!(
            "this model's maximum context length is {n_ctx} tokens, but the prompt has {tokens}; with room for an answer, it \
             exceeds the available context size; shorten it"
        );
        ApiError::new(Kind::TooLong { prompt: tokens, n_ctx }, message)
    }
}

impl IntoResponse for ApiError {
    /// Only a status; the router's [shape](crate::shape) adds the body.
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        if let Some(seconds) = self.kind.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::NoKey {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if matches!(self.kind, Kind::BodyTooLarge | Kind::BodyTimeout) {
            // The rest of the body is not read: a client that sent its next request here would get no answer.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(self);
        response
    }
}
