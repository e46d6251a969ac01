//! `rustorch serve`: models for several users, over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::time::Duration;

use anyhow::{anyhow, bail, ensure};
use backend::KV_BLOCK;
use clap::builder::FalseyValueParser;
use clap::{Arg, ValueEnum};
use engine::models::Pooling;
use engine::{Model, Options};
use server::{Config, Defaults, Keys, Loaded, Loader, ModelSource, Origin, Server, StartError, Tls};

use crate::args::{ModelArgs, OpenArgs, PositionalModel, TemplateChoice, WritingArgs};
use crate::embed::{embedder, pooling};
use crate::output::{self, Usage};
use crate::params::ParamArgs;
use crate::{interrupt, load, source};

/// While a request decodes, steps take about this long at most.
const STEP_TARGET: Duration = Duration::from_millis(100);

/// Contexts that the KV cache holds by default: most requests are shorter than the context.
const CONTEXTS: usize = 4;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A page to chat is at the address itself, OpenAI's and Anthropic's protocols below /v1, ollama's below /api.
Requests with a common beginning share its computation.
Ctrl-C, or SIGTERM, lets requests end; another Ctrl-C does not.")]
pub(crate) struct Args {
    #[command(flatten)]
    positional: PositionalModel,
    #[command(flatten)]
    models: ModelsArgs,
    /// Models that are loaded at once; the one unused for the longest time makes room
    #[arg(long, value_name = "N", default_value = "4", env, help_heading = "Model")]
    models_max: NonZero<usize>,
    /// Unload a model after so many idle seconds, until it is requested again
    #[arg(long, alias = "sleep-idle-seconds", value_name = "SECONDS", env, help_heading = "Model")]
    keep_alive: Option<NonZero<u64>>,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    keys: KeyArgs,
    /// Whether models reason, where the chat template can turn it off
    #[arg(long, value_name = "MODE", value_enum, default_value_t = Reasoning::Auto, help_heading = DEFAULTS)]
    reasoning: Reasoning,
    #[command(flatten)]
    params: ParamArgs,
    #[command(flatten)]
    serving: Serving,
}

/// The heading of options that requests can override.
const DEFAULTS: &str = "Defaults of requests";

pub(crate) fn in_requests(arg: Arg) -> Arg {
    if arg.get_help_heading() == Some("Length") { arg.help_heading(DEFAULTS) } else { arg }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reasoning {
    On,
    Off,
    Auto,
}

#[derive(Clone, Debug, clap::Args)]
struct Serving {
    #[command(flatten)]
    template: TemplateChoice,
    #[command(flatten)]
    embedding: EmbeddingArgs,
    /// Requests that are computed at once; others wait [short: -np]
    #[arg(long, alias = "np", value_name = "N", default_value = "16", env, help_heading = "Engine")]
    parallel: NonZero<usize>,
    /// Tokens in the KV cache, of all requests and of beginnings for later ones [default: 4 contexts, as far as there can be
    /// so many]
    #[arg(long, value_name = "N", env, help_heading = "Engine")]
    cache_tokens: Option<NonZero<usize>>,
    #[command(flatten)]
    writing: WritingArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
struct HttpArgs {
    /// Address to listen at; all of this machine's are 0.0.0.0
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), env, value_parser = host)]
    host: IpAddr,
    /// Port; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value = "8080", env)]
    port: u16,
    /// PEM file with the certificate, and those that signed it: connections are encrypted (https)
    #[arg(long, value_name = "FILE", env, requires = "ssl_key_file")]
    ssl_cert_file: Option<PathBuf>,
    /// PEM file with its private key; SIGHUP reads both files again
    #[arg(long, value_name = "FILE", env, requires = "ssl_cert_file")]
    ssl_key_file: Option<PathBuf>,
    /// Name of the model for clients, and further ones after commas; * is any other [default: that of the file]
    #[arg(short, long, value_name = "NAME", env, value_delimiter = ',', value_parser = name)]
    alias: Vec<String>,
    /// Refuse names that no model has, also if there is one model, which otherwise answers to every name
    #[arg(long, env, value_parser = FalseyValueParser::new())]
    strict_model: bool,
    /// Host name that clients use for this server without keys; *.example.org is all below it, * any
    #[arg(long, value_name = "NAME", env, value_delimiter = ',', value_parser = host_name)]
    host_name: Vec<String>,
    /// Origin of pages that may call this server from a browser, such as https://example.org or https://*.example.org; localhost
    /// is those of this machine, null those that hide theirs, * any
    #[arg(long, alias = "cors-origins", value_name = "ORIGIN", env, value_delimiter = ',')]
    cors_origin: Vec<Origin>,
    /// Seconds that requests may go on after the signal to stop
    #[arg(long, value_name = "SECONDS", default_value = "30", env)]
    drain_timeout: u64,
    /// Requests that wait or run, at most; more are told to try again
    #[arg(long, value_name = "N", default_value = "512", env)]
    max_requests: NonZero<usize>,
    /// Tell at /slots how many requests run, as llama-server does
    #[arg(long, env, value_parser = FalseyValueParser::new())]
    slots: bool,
    /// Do not serve the chat page
    #[arg(long, aliases = ["no-ui", "no-webui"], env, value_parser = FalseyValueParser::new())]
    no_page: bool,
}

fn name(text: &str) -> Result<String, String> {
    let name = Some(text.trim().to_owned()).filter(|name| !name.is_empty());
    name.ok_or_else(|| "expected a name".to_owned())
}

/// A name without scheme and port, in which `*` stands alone or before the first dot.
fn host_name(text: &str) -> Result<String, String> {
    let name = name(text)?;
    let rest = if name == "*" { "" } else { name.strip_prefix("*.").unwrap_or(&name) };
    if rest.contains(['*', '/', ' ']) || rest.contains(':') && rest.parse::<IpAddr>().is_err() {
        return Err(
            "expected a name without scheme and port, such as models.example.org, *.example.org or *"
                .to_owned(),
        );
    }
    Ok(name)
}

fn host(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    text.parse().map_err(|_| {
        "expected an IP address of this machine, such as 127.0.0.1, 0.0.0.0 (all) or ::1; names by which clients call it are \
         given to --host-name"
            .to_owned()
    })
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Keys")]
struct KeyArgs {
    /// File with one API key per line; it is read again at SIGHUP
    #[arg(long, value_name = "FILE", env)]
    api_key_file: Option<PathBuf>,
    /// An API key; other users of this machine can see it, unless it comes from the variable
    #[arg(long, value_name = "KEY", env, hide_env_values = true, conflicts_with = "api_key_file")]
    api_key: Option<String>,
    /// Let everybody use it, also at addresses that others can reach
    #[arg(long)]
    insecure: bool,
}

impl KeyArgs {
    fn read(&self) -> anyhow::Result<Keys> {
        Ok(match (&self.api_key, &self.api_key_file) {
            (Some(key), _) if key.trim().is_empty() => {
                bail!(Usage("--api-key is empty, so that any client could use the server".to_owned()))
            }
            (Some(key), _) => Keys::new([key.trim()]),
            (None, Some(file)) => Keys::read(file)?,
            (None, None) => Keys::default(),
        })
    }
}

/// Raises the limit of open files as far as it may be: each connection takes two.
fn open_many_files() {
    #[cfg(unix)]
    {
        use nix::sys::resource::{Resource, getrlimit, setrlimit};
        if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
            // If it is refused, the server takes fewer connections.
            let _ = setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(1 << 13)), hard);
        }
    }
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let address = SocketAddr::new(args.http.host, args.http.port);
    let keys = args.keys.read()?;
    if keys.is_empty() && !address.ip().is_loopback() && !args.keys.insecure {
        bail!(Usage(format!(
            "others can reach {}; give a file of keys with --api-key-file, or --insecure to let everybody use it",
            address.ip()
        )));
    }
    let pair = args.http.ssl_cert_file.clone().zip(args.http.ssl_key_file.clone());
    let tls = pair.as_ref().map(|(certificate, key)| Tls::read(certificate, key)).transpose()?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let (failure, failed) = mpsc::sync_channel(1);
    open_many_files();
    let (models, has_page) = (args.models(&failure)?, !args.http.no_page);
    let mut config = Config::new(address);
    config.keys = keys;
    config.hosts = args.http.host_name.clone();
    config.origins = args.http.cors_origin.clone();
    config.max_models = args.models_max.get();
    config.keep_alive = args.keep_alive.map(|seconds| Duration::from_secs(seconds.get()));
    config.slots = args.http.slots;
    config.page = !args.http.no_page;
    config.strict_model = args.http.strict_model;
    config.aliases = args.http.alias.get(1..).unwrap_or_default().to_vec();
    let mut variables = args.serving.template.variables();
    if args.reasoning != Reasoning::Auto {
        variables.extend(engine::template::reasoning_switch(args.reasoning == Reasoning::On));
    }
    config.defaults = Defaults { params: args.params.0.clone(), variables };
    config.tls = tls;
    config.drain = Duration::from_secs(args.http.drain_timeout);
    config.limits.requests = args.http.max_requests.get();
    let mut server = Server::new(config, models).map_err(|error| match &error {
        StartError::Listen { .. } => {
            anyhow!("{error}; --port N chooses another port, and 0 one that is free")
        }
        _ => error.into(),
    })?;
    let (shutdown, reload) = (server.shutdown(), server.reload());
    let file = args.keys.api_key_file.clone();
    interrupt::serving(
        move || shutdown.stop(),
        move || {
            match file.as_deref().map(Keys::read) {
                Some(Ok(keys)) => reload.replace(keys),
                Some(Err(error)) => tracing::error!("{error}; the old keys stay"),
                None => {}
            }
            match pair.as_ref().map(|(certificate, key)| Tls::read(certificate, key)) {
                Some(Ok(tls)) => reload.encrypt(tls),
                Some(Err(error)) => tracing::error!("{error}; the old certificate stays"),
                None => {}
            }
        },
    )?;
    let address = server.address()?;
    let page = if has_page { "has a page to chat" } else { "listens" };
    server.when_ready(move || {
        output::note(format_args!(
            "{scheme}://{address} {page}; OpenAI's and Anthropic's APIs are below /v1, ollama's below /api"
        ));
    });
    server.run().map_err(|error| failed.try_recv().unwrap_or_else(|_| error.into()))?;
    Ok(())
}

impl Args {
    /// One model is loaded at the start, several when they are asked for. `failure` gets the error of the one.
    fn models(&self, failure: &SyncSender<anyhow::Error>) -> anyhow::Result<Vec<(String, ModelSource)>> {
        let mut named = self.models.named(&self.positional)?;
        if let Some(alias) = self.http.alias.first() {
            let [one] = &mut named[..] else {
                bail!(Usage("--alias names one model; name several by -m NAME=MODEL".to_owned()));
            };
            one.name.clone_from(alias);
        }
        if self.serving.writing.speculation.model_draft.is_some() && named.len() > 1 {
            bail!(Usage("--model-draft drafts for one model, but there are several".to_owned()));
        }
        let is_kept = named.len() == 1 && self.keep_alive.is_none();
        let serving = Arc::new(self.serving.clone());
        let mut models = Vec::new();
        for mut one in named {
            let name = one.name.clone();
            one.find()?;
            let (serving, failure) = (serving.clone(), failure.clone());
            let load: Loader = Arc::new(move || {
                one.load(&serving).map_err(|error| {
                    let message = format!("{error:#}");
                    let _ = failure.try_send(error);
                    message
                })
            });
            let source = if is_kept { ModelSource::AtStart(load) } else { ModelSource::OnDemand(load) };
            models.push((name, source));
        }
        Ok(models)
    }
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Model")]
struct ModelsArgs {
    /// GGUF file or name, as for `run`; several, -m a=MODEL -m b=MODEL, are loaded by the first request for them [default: the
    /// embedded demo model]
    #[arg(short, long, value_name = "[NAME=]MODEL", env)]
    model: Vec<PathBuf>,
    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Model")]
struct EmbeddingArgs {
    /// Compute embeddings also by a model that writes text
    #[arg(long, alias = "embedding", env, value_parser = FalseyValueParser::new())]
    embeddings: bool,
    /// Score documents
    #[arg(long, alias = "rerank", env, value_parser = FalseyValueParser::new(), conflicts_with_all = ["embeddings", "pooling"])]
    reranking: bool,
    /// What represents a text: the mean of its tokens, the first or the last one [default: as the file says, else the mean]
    #[arg(long, value_name = "KIND", env, value_parser = whole_texts, requires = "embeddings")]
    pooling: Option<Pooling>,
}

/// Pooling that gives a text one embedding.
fn whole_texts(name: &str) -> Result<Pooling, String> {
    match pooling(name)? {
        Pooling::None => Err("an embedding is of a whole text; expected mean, cls or last".to_owned()),
        Pooling::Rank => {
            Err("rank gives scores instead of embeddings, and needs --reranking; expected mean, cls or last"
                .to_owned())
        }
        kind => Ok(kind),
    }
}

/// A model, by the name that clients use.
#[derive(Debug)]
struct Named {
    name: String,
    args: ModelArgs,
}

impl ModelsArgs {
    /// The models in order, of which the positional one replaces all. Fails if two have the same name.
    fn named(&self, positional: &PositionalModel) -> Result<Vec<Named>, Usage> {
        let typed = positional.name.as_ref().map_or(&self.model[..], std::slice::from_ref);
        let named = |typed: &PathBuf| {
            let (name, model) = split(typed);
            let is_file = model.extension().is_some_and(|extension| extension == "gguf");
            let own = model.file_stem().filter(|_| is_file).unwrap_or(model.as_os_str());
            let name = name.unwrap_or_else(|| own.to_string_lossy().into_owned());
            Named { name, args: ModelArgs { model: Some(model), open: self.open.clone() } }
        };
        let mut all: Vec<Named> = typed.iter().map(named).collect();
        if all.is_empty() {
            let args = ModelArgs { model: None, open: self.open.clone() };
            all.push(Named { name: "demo".to_owned(), args });
        }
        for (number, Named { name, .. }) in all.iter().enumerate() {
            if all[..number].iter().any(|other| other.name == *name) {
                return Err(Usage(format!("two models are called `{name}`; name them: -m NAME=MODEL")));
            }
        }
        Ok(all)
    }
}

/// `NAME=MODEL`, or a model alone. A file whose name has an equals sign is a file.
fn split(typed: &Path) -> (Option<String>, PathBuf) {
    let named = typed.to_str().filter(|_| !typed.exists()).and_then(|text| text.split_once('='));
    match named {
        Some((name, model)) if !name.is_empty() && !name.contains('/') => {
            (Some(name.to_owned()), model.into())
        }
        _ => (None, typed.to_owned()),
    }
}

impl Named {
    /// Finds the file, downloaded if it must be, so that loading it later needs no network. Fails if it is no model that runs.
    fn find(&mut self) -> anyhow::Result<()> {
        if let Some(path) = source::locate(&self.args)? {
            let pre_tokenizer = self.args.open.pre_tokenizer.take();
            let open = OpenArgs { pre_tokenizer, ..OpenArgs::default() };
            self.args = ModelArgs { model: Some(path), open };
        }
        Model::new(load::file(&self.args)?)?;
        Ok(())
    }

    fn load(&self, serving: &Serving) -> anyhow::Result<Loaded> {
        let (name, model) = (&self.name, Model::new(load::introduced(&self.args)?)?);
        let EmbeddingArgs { embeddings, reranking, .. } = serving.embedding;
        if embeddings || reranking || model.is_for_embeddings() {
            return self.embedder(serving);
        }
        let (model, network) = (serving.template.apply(model)?, self.args.open.network);
        let engine = load::serving(model, &serving.writing, network, |options| serving.adjust(options))?;
        let (limits, cached) = (engine.limits(), engine.load().blocks * KV_BLOCK);
        let (requests, n_ctx) = (limits.sequences, limits.n_ctx);
        output::note(format_args!(
            "{name}: {requests} requests at once, each up to {n_ctx} tokens; {cached} tokens in the KV cache"
        ));
        Ok(Loaded::Engine(Box::new(engine)))
    }

    /// As the file says how to pool, or else by the mean.
    fn embedder(&self, serving: &Serving) -> anyhow::Result<Loaded> {
        let EmbeddingArgs { reranking, pooling, .. } = serving.embedding;
        let pooling = if reranking { Some(Pooling::Rank) } else { pooling };
        let mut model = Model::embedding(load::file(&self.args)?, pooling)?;
        if model.config().pooling == Some(Pooling::None) {
            model = Model::embedding(load::file(&self.args)?, Some(Pooling::Mean))?;
        }
        let engine = &serving.writing.engine;
        let embedder = embedder(model, &engine.backend, engine.context.ctx_size)?;
        ensure!(embedder.width() > 0, "{}: its embeddings have no values", embedder.model().file().file());
        let scores = embedder.model().config().pooling == Some(Pooling::Rank);
        let what = if scores { "scores documents" } else { "computes embeddings" };
        output::note(format_args!("{}: {what}, each up to {} tokens", self.name, embedder.n_ctx()));
        Ok(Loaded::Embedder(Box::new(embedder)))
    }
}

impl Serving {
    /// Several requests at once, on blocks that they share.
    fn adjust(&self, options: &mut Options) {
        options.sequences = self.parallel.get();
        options.step_target = Some(STEP_TARGET);
        let n_ctx = options.n_ctx.unwrap_or(engine::DEFAULT_N_CTX);
        let default = n_ctx.saturating_mul(CONTEXTS.min(options.sequences));
        let tokens = self.cache_tokens.map_or(default, NonZero::get);
        options.blocks = Some(tokens.max(n_ctx).div_ceil(KV_BLOCK));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_precede_an_equals_sign() {
        let split = |typed: &str| split(Path::new(typed));
        assert_eq!(split("a=b.gguf"), (Some("a".to_owned()), "b.gguf".into()));
        assert_eq!(split("a=user/repo:Q8_0"), (Some("a".to_owned()), "user/repo:Q8_0".into()));
        assert_eq!(split("models/x=1.gguf"), (None, "models/x=1.gguf".into()));
        assert_eq!(split("qwen3:0.6b"), (None, "qwen3:0.6b".into()));
        assert_eq!(split("=b.gguf"), (None, "=b.gguf".into()));
    }
}
