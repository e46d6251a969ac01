//! Options of llama.cpp that change nothing here, or have no counterpart.

use clap::builder::PossibleValuesParser;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::output::note;

/// Values of options that may also have none.
pub(crate) const SWITCH: [&str; 7] = ["on", "off", "auto", "1", "0", "true", "false"];

/// Switches whose effect is the same for `chat`, `run` and `serve`: names, separated by commas.
const SILENT: &str = "jinja mmap,mmp no-mmap warmup no-warmup no-context-shift log-disable log-prefix,no-log-prefix log-timestamps,no-log-timestamps \
    kv-offload,kvo repack op-offload,no-op-offload,nopo no-host perf no-perf \
    cont-batching,cb kv-unified,kvu";

/// The same of conversations and texts.
const SILENT_CHAT: &str = "conversation,cnv single-turn,st interactive,interactive-first,if,i no-display-prompt simple-io \
    no-escape context-shift";

/// The same of servers.
const SILENT_SERVE: &str = "metrics no-slots ui,webui cache-prompt";

#[derive(Clone, Copy)]
enum Value {
    Nothing,
    /// One of [`SWITCH`], or nothing.
    Switch,
    Anything,
}

use Value::{Anything, Nothing, Switch};

/// Other options that are ignored: commands (`chat` includes `run`), comma-separated names, value, and a note, empty if the
/// effect is the same.
const HARMLESS: &[(&str, &str, Value, &str)] = &[
    ("all", "flash-attn,fa", Switch, ""),
    ("all", "no-jinja", Nothing, "chat templates are always Jinja"),
    ("all", "mlock", Nothing, "memory is not locked; the system may swap it out"),
    ("all", "log-colors", Switch, ""),
    ("all", "log-verbosity,verbosity,lv", Anything, "-v prints more"),
    ("all", "log-file", Anything, "no log is written; -v prints more to stderr"),
    ("all", "threads-batch,tb", Anything, "-t also applies to prompts"),
    ("all", "numa", Anything, "the system places threads"),
    ("all", "prio,prio-batch", Anything, "threads keep their default priority"),
    ("all", "poll,poll-batch", Anything, ""),
    ("all", "check-tensors", Nothing, "`rustorch verify` checks a model"),
    (
        "all",
        "cpu-mask,C,cpu-range,Cr,cpu-mask-batch,Cb,cpu-range-batch,Crb",
        Anything,
        "the system places threads; `taskset` binds them",
    ),
    ("all", "cpu-strict,cpu-strict-batch", Anything, "the system places threads"),
    ("all", "swa-full", Nothing, "a window's cache holds what later tokens see"),
    ("all", "defrag-thold,dt", Anything, "the cache has blocks, which need no defragmentation"),
    ("all", "no-kv-unified,no-kvu", Nothing, "all requests share one cache"),
    ("all", "fit", Switch, "-ngl auto, the default, fits the model to the memory"),
    (
        "all",
        "fit-target,fitt,fit-ctx,fitc",
        Anything,
        "-ngl auto, the default, fits the model to the memory; --gpu-memory limits it",
    ),
    ("all", "load-mode,lm,lazy-mode,lzm", Anything, "files are always mapped"),
    ("all", "backend-sampling,bs", Nothing, "a device samples where that is the same token"),
    ("all", "log-jsonl", Nothing, "no log is written; -v prints more to stderr"),
    (
        "all",
        "ctx-checkpoints,ctxcp,swa-checkpoints",
        Anything,
        "states are kept where prompts may begin alike",
    ),
    ("chat", "show-timings,no-show-timings", Nothing, "-v prints timings"),
    ("chat", "reasoning-format", Anything, "--reasoning says how reasoning is shown"),
    ("chat", "parallel,np,cache-ram,cram,cache-reuse", Anything, "there is one answer at a time"),
    ("chat", "keepalive", Anything, "the model is here as long as the program"),
    ("chat", "nowordwrap", Nothing, "lines break between words on a terminal only"),
    ("serve", "no-cont-batching,nocb", Nothing, "requests always share steps"),
    (
        "serve",
        "checkpoint-min-step,cms,cache-idle-slots,no-cache-idle-slots",
        Nothing,
        "requests have no slots",
    ),
    ("serve", "slots", Nothing, "requests have no slots"),
    (
        "serve",
        "no-models-autoload,models-autoload",
        Nothing,
        "a model of `-m NAME=FILE` is loaded when it is asked for",
    ),
    ("chat", "multiline-input,mli", Nothing, "Alt-Enter starts a new line"),
    ("chat", "display-prompt", Nothing, "the prompt is not printed"),
    ("all", "verbose-prompt", Nothing, "`rustorch tokenize` shows the tokens of a text"),
    ("all", "keep", Anything, "the system message is always kept"),
    ("serve", "reasoning-format", Anything, "reasoning is always apart from the content"),
    ("serve", "no-cache-prompt", Nothing, "what begins alike is always shared; answers are the same"),
    ("serve", "cache-reuse", Anything, "only beginnings are shared"),
    ("serve", "cache-ram,cram", Anything, "--cache-tokens is the size of the cache"),
    ("serve", "slot-prompt-similarity,sps", Anything, "requests have no slots"),
    ("serve", "threads-http", Anything, "connections need few threads"),
    (
        "serve",
        "timeout,to",
        Anything,
        "clients that stop sending or reading are cut off after 30 s, answers take their time",
    ),
];

/// Options without a counterpart, and the alternative.
const ABSENT: &[(&str, &str)] = &[
    ("mg main-gpu dev device", "to choose GPUs, use '-ts', such as '-ts 0,1' for the second alone"),
    ("sysf system-prompt-file", "to read the system message from a file, use '-sys \"$(cat FILE)\"'"),
    (
        "lora lora-scaled lora-init-without-apply",
        "adapters are not applied; use a file that has the adapter merged in",
    ),
    (
        "mmproj mm mmproj-url mmu mmproj-auto no-mmproj no-mmproj-auto mmproj-offload no-mmproj-offload image audio video \
         image-min-tokens image-max-tokens mtmd-batch-max-tokens video-fps video-timestamp-interval video-ffmpeg-dir",
        "pictures and sounds are not supported; leave it out",
    ),
    ("context-shift", "nothing is cut from a context; '-c N' makes it longer"),
    ("models-dir models-preset models-max", "to serve several models, give each: -m a=FILE -m b=FILE"),
    ("api-prefix path media-path", "to serve other pages or below another path, put a proxy before it"),
    (
        "props tools tools-runtime mcp-servers-config mcp-servers-json agent ag no-agent no-ag ui-mcp-proxy webui-mcp-proxy \
         no-ui-mcp-proxy no-webui-mcp-proxy",
        "leave it out: nothing is changed or run for clients",
    ),
    (
        "ui-config webui-config ui-config-file webui-config-file tags",
        "leave it out: the page keeps its settings in the browser",
    ),
    (
        "cors-origins cors-methods cors-headers cors-credentials no-cors-credentials",
        "'rustorch serve --help' lists the options for other origins",
    ),
    (
        "slot-save-path prompt-cache prompt-cache-all prompt-cache-ro kv-unified-per-slot",
        "the cache of prompts is shared by all requests, and not saved",
    ),
    (
        "ot override-tensor cmoe cpu-moe ncmoe n-cpu-moe ncffn n-cpu-ffn",
        "the placement of single tensors or experts is not yet supported; '-ngl N' offloads whole layers",
    ),
    (
        "rope-scaling rope-scale rope-freq-base rope-freq-scale yarn-orig-ctx yarn-ext-factor yarn-attn-factor yarn-beta-slow \
         yarn-beta-fast gan grp-attn-n gaw grp-attn-w",
        "not yet supported: the scaling of positions is the file's",
    ),
    ("override-kv", "not yet supported: the metadata is the file's"),
    (
        "reasoning-budget reasoning-budget-message reasoning-effort reasoning-preserve no-reasoning-preserve",
        "not yet supported; '--reasoning off' turns reasoning off, '--chat-template-kwargs' sets variables of the template",
    ),
    ("rea think", "use '--reasoning show', 'hide' or 'off'"),
    ("hidethinking", "use '--reasoning hide'"),
    (
        "control-vector control-vector-scaled control-vector-layer-range",
        "control vectors are not applied; leave it out",
    ),
    ("rpc", "other hosts' devices are not used; leave it out"),
    ("no-kv-offload nkvo", "the cache is where its layers are; '-ngl N' leaves layers on the CPU"),
    ("nr", "use '--no-repack'"),
    ("hf-token hft", "set the variable HF_TOKEN, or log in with Hugging Face's program"),
    ("docker-repo dr", "models come from Hugging Face: '-hf user/repo'"),
    ("cl cache-list", "use 'rustorch list'"),
    ("list-devices", "use 'rustorch devices'"),
    ("completion-bash", "use 'rustorch completions bash'"),
    ("server-base", "the program computes on this machine; leave it out"),
    ("bf binary-file in-file context-file", "to read a text from a file, use '-f FILE'"),
    (
        "ptc print-token-count log-verbose log-prompts-dir fit-print fitp",
        "use '-v', which prints timings and token counts",
    ),
    ("sp special", "special tokens are not printed; 'rustorch detokenize' shows those of given ids"),
    (
        "in-prefix in-prefix-bos in-suffix spm-infill",
        "the chat template writes what surrounds a message; leave it out",
    ),
    (
        "prefill-assistant no-prefill-assistant",
        "leave it out: a last message of the assistant is always continued",
    ),
    (
        "skip-chat-parsing no-skip-chat-parsing",
        "leave it out, or use '--raw' for a prompt without a chat template",
    ),
    ("dynatemp-range dynatemp-exp", "the temperature is fixed: '--temp T'"),
    (
        "mirostat mirostat-lr mirostat-ent adaptive-target adaptive-decay",
        "no such sampler; use '--top-p' or '--min-p'",
    ),
    ("typical typical-p", "no such sampler; use '--top-p' or '--min-p'"),
    ("sampler-seq sampling-seq", "use '--samplers', which takes letters, too"),
    ("predict n-predict", "use '-n N'"),
    ("reverse-prompt", "use '-r TEXT'"),
    ("attention", "whether attention is causal is the file's; leave it out"),
    (
        "ppl ppl-stride ppl-output-type hellaswag hellaswag-tasks winogrande winogrande-tasks multiple-choice multiple-choice-tasks \
      kl-divergence kl-divergence-base save-all-logits chunks chunk from-chunk",
        "'rustorch perplexity --help' lists what is computed: perplexity, and KL divergence by '--kl-base'",
    ),
    (
        "output-frequency ofreq save-frequency process-output no-ppl show-statistics",
        "leave it out: 'rustorch imatrix' writes one file at its end",
    ),
    (
        "embd-normalize embd-output-format embd-separator cls-separator",
        "'rustorch embed --help' lists the formats",
    ),
    (
        "embedding embeddings rerank reranking",
        "the model's file says whether it embeds or ranks; leave it out",
    ),
    ("ssl-key-file ssl-cert-file", "'rustorch serve --help' lists the options for encryption"),
    ("api-key api-key-file", "'rustorch serve --help' lists the options for keys"),
    (
        "reuse-port sse-ping-interval sleep-idle-seconds",
        "leave it out; 'rustorch serve --help' lists the options",
    ),
    (
        "lookup-cache-static lcs lookup-cache-dynamic lcd spec-ngram-mod-n-min spec-ngram-mod-n-max spec-ngram-mod-n-match \
         spec-ngram-simple-size-n spec-ngram-simple-size-m spec-ngram-simple-min-hits spec-ngram-map-k-size-n \
         spec-ngram-map-k-size-m spec-ngram-map-k-min-hits spec-ngram-map-k4v-size-n spec-ngram-map-k4v-size-m \
         spec-ngram-map-k4v-min-hits spec-ngram-size-n spec-ngram-size-m spec-ngram-min-hits spec-default",
        "to draft from what was written before, use '--spec-type ngram-simple'",
    ),
    (
        "spec-draft-hf hfd hfrd hf-repo-draft mtp dflash eagle3",
        "to draft with a smaller model, use '--model-draft', which takes names, too",
    ),
    (
        "spec-draft-threads td threads-draft spec-draft-threads-batch tbd threads-batch-draft spec-draft-cpu-mask Cd \
         cpu-mask-draft spec-draft-cpu-range Crd cpu-range-draft spec-draft-cpu-strict cpu-strict-draft spec-draft-prio \
         prio-draft spec-draft-poll poll-draft spec-draft-cpu-mask-batch Cbd cpu-mask-batch-draft spec-draft-cpu-range-batch \
         Crbd cpu-range-batch-draft spec-draft-cpu-strict-batch cpu-strict-batch-draft spec-draft-prio-batch prio-batch-draft \
         spec-draft-poll-batch poll-batch-draft spec-draft-type-k ctkd cache-type-k-draft spec-draft-type-v ctvd \
         cache-type-v-draft spec-draft-override-tensor otd override-tensor-draft spec-draft-cpu-moe cmoed cpu-moe-draft \
         spec-draft-n-cpu-moe spec-draft-ncmoe ncmoed n-cpu-moe-draft spec-synth-len spec-synth-rates spec-draft-p-split \
         draft-p-split spec-draft-p-min draft-p-min spec-draft-backend-sampling no-spec-draft-backend-sampling \
         spec-draft-device devd device-draft spec-draft-ngl ngld gpu-layers-draft n-gpu-layers-draft",
        "leave it out: the model that drafts runs as the other one does",
    ),
    (
        "embd-gemma-default fim-qwen-1.5b-default fim-qwen-3b-default fim-qwen-7b-default fim-qwen-7b-spec fim-qwen-14b-spec \
         fim-qwen-30b-default gpt-oss-20b-default gpt-oss-120b-default vision-gemma-4b-default vision-gemma-12b-default",
        "name the model: '-hf user/repo'",
    ),
    ("o output output-file", "to write the text to a file, use '> FILE'"),
    ("f file e escape no-escape", "clients send the texts; leave it out"),
    (
        "grammar grammar-file j json-schema jf json-schema-file",
        "clients send schemas and grammars with their requests; leave it out",
    ),
    ("format", "for JSON, use '-j SCHEMA'; '-j true' is any JSON"),
    ("insecure", "leave it out: models come by HTTPS"),
    (
        "allow-requantize leave-output-tensor pure output-tensor-type token-embedding-type tensor-type tensor-type-file prune-layers \
      include-weights exclude-weights keep-split",
        "'rustorch quantize --help' lists what a type's mix may be told",
    ),
    ("n-depth delay embd embeddings-only progress", "'rustorch bench --help' lists the tests"),
];

/// Lets the commands that llama.cpp has, too, accept options that change nothing.
pub(crate) fn accept(command: Command) -> Command {
    command.mut_subcommands(|command| {
        let (own, silent) = match command.get_name() {
            "chat" | "run" => ("chat", SILENT_CHAT),
            "serve" => ("serve", SILENT_SERVE),
            "bench" | "embed" | "imatrix" | "perplexity" | "rerank" => ("", ""),
            _ => return command,
        };
        let silent = [SILENT, silent].into_iter().flat_map(str::split_whitespace);
        let explained = HARMLESS.iter().filter(|(commands, ..)| ["all", own].contains(commands));
        let options =
            silent.map(|names| (names, Nothing)).chain(explained.map(|&(_, names, value, _)| (names, value)));
        options.fold(command, add)
    })
}

fn add(command: Command, (names, value): (&'static str, Value)) -> Command {
    let mut names = names.split(',');
    let Some(name) =
        names.next().filter(|name| command.get_arguments().all(|arg| arg.get_long() != Some(name)))
    else {
        return command;
    };
    let (letters, words): (Vec<&str>, Vec<&str>) = names.partition(|name| name.len() == 1);
    let arg = Arg::new(name).long(name).aliases(words).hide(true);
    let arg = letters.iter().filter_map(|name| name.chars().next()).fold(arg, Arg::short);
    command.arg(match value {
        Nothing => arg.action(ArgAction::SetTrue),
        Switch => arg.num_args(0..=1).value_parser(PossibleValuesParser::new(SWITCH)),
        Anything => arg.allow_hyphen_values(true),
    })
}

pub(crate) fn explain(matches: &ArgMatches) {
    let Some((_, given)) = matches.subcommand() else { return };
    for &(_, names, _, why) in HARMLESS.iter().filter(|(.., why)| !why.is_empty()) {
        let name = names.split(',').next().unwrap_or(names);
        let is_known = given.try_contains_id(name).is_ok();
        if is_known && given.value_source(name) == Some(ValueSource::CommandLine) {
            note(format_args!("--{name} changes nothing: {why}"));
        }
    }
}

/// Commands of ollama without a counterpart, and the alternative.
const COMMANDS: &[(&str, &str)] = &[
    ("ps stop", "a model is loaded as long as its program runs: Ctrl-C ends it"),
    ("cp", "to have a model under another name, copy the file that 'rustorch where NAME' prints"),
    ("create", "to make a model file, use 'rustorch convert' or 'rustorch quantize'"),
    ("push signin signout login", "models are not uploaded"),
];

/// The alternative to ollama's command `name`.
pub(crate) fn instead_of_command(name: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(names, _)| names.split(' ').any(|known| known == name)).map(|(_, advice)| *advice)
}

/// The alternative to the option `name` (without dashes).
pub(crate) fn instead_of(name: &str) -> Option<&'static str> {
    ABSENT
        .iter()
        .find(|(names, _)| names.split_whitespace().any(|known| known == name))
        .map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use crate::{argv, cli_errors, command};

    const BENCH: &str = "-r --repetitions --delay -o --output -p --n-prompt -n --n-gen -d --n-depth -b --batch-size -ub \
        --ubatch-size -ctk --cache-type-k -t --threads -C --cpu-mask --cpu-strict --poll -ngl --n-gpu-layers -ncmoe --n-cpu-moe \
        -sm --split-mode -mg --main-gpu -nkvo --no-kv-offload -fa --flash-attn -dev --device -mmp --mmap -embd --embeddings -ts \
        --tensor-split -ot --override-tensor -nopo --no-op-offload --no-host --progress --numa --prio --rpc --list-devices";
    const QUANTIZE: &str = "--allow-requantize --leave-output-tensor --pure --imatrix --include-weights --exclude-weights \
        --output-tensor-type --token-embedding-type --tensor-type --tensor-type-file --prune-layers --keep-split --override-kv \
        --dry-run";
    const OLLAMA: &str = "--verbose --keepalive --format --think --nowordwrap --hidethinking --insecure";

    /// Options of other programs, with the command that does the same here, are accepted, or refused with a reason.
    #[test]
    fn options_of_other_programs_are_accepted_or_explained() {
        let all = command::all();
        let mut silent = Vec::new();
        for (command, options) in [
            ("run", include_str!("../tests/cli/options/llama-cli.txt")),
            ("chat", include_str!("../tests/cli/options/llama-cli.txt")),
            ("serve", include_str!("../tests/cli/options/llama-server.txt")),
            ("perplexity", include_str!("../tests/cli/options/llama-perplexity.txt")),
            ("embed", include_str!("../tests/cli/options/llama-embedding.txt")),
            ("bench", BENCH),
            ("quantize", QUANTIZE),
            ("run", OLLAMA),
        ] {
            for option in options.split_whitespace() {
                // A letter's value may follow it, so that `-e=1` is another matter.
                let joined = if option.len() > 2 { format!("{option}=1") } else { option.to_owned() };
                for words in [vec![option.to_owned(), "1".to_owned()], vec![joined], vec![option.to_owned()]]
                {
                    let typed = ["rustorch", command].map(str::to_owned).into_iter().chain(words.clone());
                    let args = argv::rewrite(typed.map(OsString::from), &all);
                    let Err(error) = all.clone().try_get_matches_from(&args) else { continue };
                    let is_unknown = error.kind() == clap::error::ErrorKind::UnknownArgument;
                    let error = cli_errors::explain(error, &all, &args).to_string();
                    assert!(!error.contains("as a value"), "{command} {words:?}: {error}");
                    if is_unknown && error.contains("argument '-") && !error.contains("tip: ") {
                        silent.push(format!(
                            "{command} {}: {}",
                            words.join(" "),
                            error.lines().next().unwrap_or_default()
                        ));
                    }
                }
            }
        }
        silent.dedup();
        assert!(silent.is_empty(), "refused without a reason: {silent:?}");
    }
}
