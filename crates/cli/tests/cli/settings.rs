//! Flags over variables over the configuration file; models by name.

use crate::common::{Home, Ran, ids, write};

fn generated(ran: Ran) -> usize {
    ids(&ran.json()["ids"]).len()
}

#[test]
fn flags_win_over_variables_over_the_file() {
    let home = Home::new();
    let args = "run --raw -p Hi --ignore-eos --json";
    let model = home.model.display();
    write(&home.path(".config/rustorch/config.toml"), format!("model = '{model}'\nmax-tokens = 3\n"));
    assert_eq!(generated(home.run(args)), 3);
    let with_variable = |args: &str| {
        Ran::from(home.command(args).env("RUSTORCH_MAX_TOKENS", "4").output().expect("the program starts"))
    };
    assert_eq!(generated(with_variable(args)), 4);
    assert_eq!(generated(with_variable(&format!("{args} -n 5"))), 5);
    let elsewhere = home.path("elsewhere");
    let mut command = home.command(&format!("{args} -n 2"));
    let ran = command.env("XDG_CONFIG_HOME", elsewhere).output().expect("the program starts");
    assert_eq!(Ran::from(ran).json()["model"], "embedded model", "no file, no model");
}

#[test]
fn an_empty_variable_is_unset() {
    let home = Home::new();
    let model = home.model.display();
    write(&home.path(".config/rustorch/config.toml"), format!("model = '{model}'\nmax-tokens = 3\n"));
    let mut command = home.command("run -p Hi --ignore-eos --json");
    for name in ["MODEL", "MAX_TOKENS", "TEMPERATURE", "THREADS", "BACKEND", "SYSTEM", "RAW", "DEBUG"] {
        command.env(format!("RUSTORCH_{name}"), "");
    }
    assert_eq!(generated(Ran::from(command.output().expect("the program starts"))), 3);
}

#[test]
fn faults_in_variables_name_them() {
    let home = Home::new();
    for (name, value) in
        [("TOP_K", "abc"), ("TEMPERATURE", "nan"), ("BACKEND", "gpu"), ("THREADS", "0"), ("TOP_P", "-2")]
    {
        let name = format!("RUSTORCH_{name}");
        for args in ["run -m MODEL -p x", "chat -m MODEL"] {
            let ran = home.command(args).env(&name, value).output().expect("the program starts");
            let error = Ran::from(ran).failed(2);
            assert!(error.contains(&format!("invalid value '{value}' for '{name}'")), "{args}: {error}");
        }
    }
    let mut command = home.command("run -m MODEL -p x --top-k few");
    let ran = command.env("RUSTORCH_TOP_K", "abc").output().expect("the program starts");
    let error = Ran::from(ran).failed(2);
    assert!(error.contains("invalid value 'few' for '--top-k <K>'"), "the flag wins: {error}");
}

#[test]
fn faults_in_the_file_are_named() {
    let home = Home::new();
    let file = write(&home.path(".config/rustorch/config.toml"), "temp = 0.5\ntop-k = true\n");
    let place = format!("{}:2: ", file.display());
    for args in ["devices", "run --no-such-flag"] {
        let error = home.run(args).failed(1);
        assert!(error.contains(&place) && error.contains("top-k"), "{error}");
    }
    for help in ["--help", "-h", "--version", "-V", "run --help", "chat -h"] {
        assert!(home.run(help).quiet().contains("rustorch"), "{help}");
    }
}

/// What is unknown is named, with what was probably meant, and the rest holds.
#[test]
fn unknown_names_change_nothing() {
    let home = Home::new();
    let model = home.model.display();
    let text = format!("model = '{model}'\nmax-token = 9\nmax-tokens = 3\nbogus = 1\n");
    let file = write(&home.path(".config/rustorch/config.toml"), text);
    let mut command = home.command("run --raw -p Hi --ignore-eos --json");
    let ran = Ran::from(command.env("RUSTORCH_TOPK", "1").output().expect("the program starts"));
    let said = ran.stderr.replace(&file.display().to_string(), "config.toml");
    insta::assert_snapshot!(said, @r"
    warning: config.toml:2: unknown key `max-token` is ignored; did you mean max-tokens?
    warning: config.toml:4: unknown key `bogus` is ignored
    warning: unknown variable RUSTORCH_TOPK is ignored; did you mean RUSTORCH_TOP_K?
    ");
    assert_eq!(generated(ran), 3);
}

#[test]
fn models_have_names() {
    let home = Home::new();
    let bytes = std::fs::read(&home.model).expect("the model");
    write(&home.path(".rustorch/models/tiny.gguf"), bytes);
    let named = home.run("run -m tiny --raw -p Hi -n 2 --temp 0").quiet();
    assert_eq!(named, home.run("run -m tiny.gguf --raw -p Hi -n 2 --temp 0").quiet());
    assert_eq!(named, home.run("run -m MODEL --raw -p Hi -n 2 --temp 0").quiet());
    let error = home.run("run -m huge -p Hi").failed(1);
    let folder = home.path(".rustorch/models");
    for said in ["`huge`", &folder.display().to_string(), "give its path"] {
        assert!(error.contains(said), "{said}: {error}");
    }
}

#[test]
fn tracing_is_off_unless_asked_for() {
    let home = Home::new();
    home.run("run -m MODEL --raw -p Hi -n 2").quiet();
    let verbose = home.run("run -m MODEL --raw -p Hi -n 2 -v");
    assert!(verbose.stderr.contains("tokens/s") && verbose.stderr.contains("DEBUG"), "{}", verbose.stderr);
    let ready = verbose.stderr.lines().find(|line| line.contains("the model is ready")).expect("a line");
    assert!(ready.contains("context of 2048 tokens") && ready.contains("KiB"), "{ready}");
    assert!(!ready.contains('{'), "for people: {ready}");
    let mut command = home.command("run -m MODEL --raw -p Hi -n 2");
    let ran = Ran::from(command.env("RUSTORCH_DEBUG", "1").output().expect("the program starts"));
    assert!(ran.stderr.contains("DEBUG"));
    let ran = Ran::from(command.env("RUSTORCH_DEBUG", "0").output().expect("the program starts"));
    assert_eq!(ran.stderr, "");
}
