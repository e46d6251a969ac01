//! `rustorch serve`: a model for several users, over HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use backend::PAGE;
use engine::{Engine, Options};
use server::{Config, Keys, Server};

use crate::args::{EngineArgs, ModelArgs, PositionalModel, TemplateChoice};
use crate::{interrupt, load, output};

/// While anyone decodes, steps take about this long at most.
const STEP_TARGET: Duration = Duration::from_millis(100);

/// Contexts that the KV cache holds by default: most requests are shorter than the context.
const CONTEXTS: usize = 4;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A page to chat is at the address itself, OpenAI's and Anthropic's protocols below /v1. Requests with a common beginning share
their computation.
Ctrl-C, or SIGTERM, lets requests end; another Ctrl-C does not.")]
pub(crate) struct Args {
    #[command(flatten)]
    positional: PositionalModel,
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    http: HttpArgs,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten)]
    template: TemplateChoice,
    /// Requests that are computed at once; others wait [short: -np]
    #[arg(long, alias = "np", value_name = "N", default_value = "16", env, help_heading = "Engine")]
    parallel: NonZero<usize>,
    /// Tokens in the KV cache, of all requests and of beginnings for later ones [default: 4 contexts, as far as there can be
    /// so many]
    #[arg(long, value_name = "N", env, help_heading = "Engine")]
    cache_tokens: Option<NonZero<usize>>,
    #[command(flatten)]
    engine: EngineArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
struct HttpArgs {
    /// Address to listen at; all of this machine's are 0.0.0.0
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), env)]
    host: IpAddr,
    /// Port; 0 is any that is free
    #[arg(long, value_name = "PORT", default_value = "8080", env)]
    port: u16,
    /// Name of the model for clients [default: that of the file]
    #[arg(short, long, value_name = "NAME", env)]
    alias: Option<String>,
    /// Host name that clients use for this server; * accepts any
    #[arg(long, value_name = "NAME", env, value_delimiter = ',')]
    host_name: Vec<String>,
    /// Origin of pages that may call this server from a browser, such as https://example.org
    #[arg(long, value_name = "ORIGIN", env, value_delimiter = ',')]
    cors_origin: Vec<String>,
    /// Seconds that requests may go on after the signal to stop
    #[arg(long, value_name = "SECONDS", default_value = "30", env)]
    drain_timeout: u64,
    /// Requests that wait or run, at most; more are told to try again
    #[arg(long, value_name = "N", default_value = "512", env)]
    max_requests: NonZero<usize>,
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
            (Some(key), _) => Keys::new([&**key]),
            (None, Some(file)) => Keys::read(file)?,
            (None, None) => Keys::default(),
        })
    }
}

pub(crate) fn run(mut args: Args) -> anyhow::Result<ExitCode> {
    args.positional.clone().apply(&mut args.model);
    let address = SocketAddr::new(args.http.host, args.http.port);
    let keys = args.keys.read()?;
    if keys.is_empty() && !address.ip().is_loopback() && !args.keys.insecure {
        bail!(output::Usage(format!(
            "others can reach {}; give a file of keys with --api-key-file, or --insecure to let everybody use it",
            address.ip()
        )));
    }
    let model = args.template.apply(load::model(&args.model)?)?;
    let name = args.http.alias.clone().unwrap_or_else(|| name_of(&args.model, &model));
    let engine = load::serving(model, &args.engine, |options| args.adjust(options))?;
    let described = describe(&engine);
    let config = args.config(address, keys);
    let server = Server::new(config, vec![(name.clone(), engine)])
        .context("--port chooses another port, and 0 one that is free")?;
    let (shutdown, reload) = (server.shutdown(), server.reload());
    let file = args.keys.api_key_file.clone();
    interrupt::serving(
        move || shutdown.stop(),
        move || match file.as_deref().map(Keys::read) {
            Some(Ok(keys)) => reload.replace(keys),
            // The old keys stay.
            Some(Err(error)) => tracing::error!("{error}"),
            None => {}
        },
    )?;
    output::note(format_args!("{name}: {described}"));
    output::note(format_args!(
        "http://{} has a page to chat; the APIs of OpenAI and Anthropic are below /v1",
        server.address()?
    ));
    server.run()?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Several requests at once, on pages that they share.
    fn adjust(&self, options: &mut Options) {
        options.sequences = self.parallel.get();
        options.step_target = Some(STEP_TARGET);
        let n_ctx = options.n_ctx.unwrap_or(engine::DEFAULT_N_CTX);
        let tokens =
            self.cache_tokens.map_or(n_ctx.saturating_mul(CONTEXTS.min(options.sequences)), NonZero::get);
        options.pages = Some(tokens.max(n_ctx).div_ceil(PAGE));
    }

    fn config(&self, address: SocketAddr, keys: Keys) -> Config {
        let mut config = Config::new(address);
        config.keys = keys;
        config.hosts = self.http.host_name.clone();
        config.origins = self.http.cors_origin.clone();
        config.drain = Duration::from_secs(self.http.drain_timeout);
        config.limits.requests = self.http.max_requests.get();
        config
    }
}

/// The name as it was given, or the file's; the demo model has one of its own.
fn name_of(args: &ModelArgs, model: &engine::Model) -> String {
    let given = args.model.as_deref().map(|path| match path.extension() {
        Some(extension) if extension == "gguf" => path.file_stem().map(Path::new).unwrap_or(path).to_owned(),
        _ => path.to_owned(),
    });
    let named = || model.file().metadata().str("general.name").ok().flatten().map(str::to_owned);
    match given {
        Some(name) => name.to_string_lossy().into_owned(),
        None => named().unwrap_or_else(|| "demo".to_owned()),
    }
}

fn describe(engine: &Engine) -> String {
    let (limits, load) = (engine.limits(), engine.load());
    format!(
        "{} requests at once, each up to {} tokens; {} tokens in the KV cache",
        limits.sequences,
        limits.n_ctx,
        load.pages * PAGE
    )
}
