//! Completion, in the shells themselves where they are installed.

use std::fs;
use std::path::Path;
use std::process::Command;

use rexpect::session::{PtySession, spawn_command};

use crate::common::{Home, Ran, write};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A home with a model in its folder, two of a repository in the cache, and a file whose name has a space.
fn home() -> Home {
    let home = Home::new();
    let repo = home.path(".cache/huggingface/hub/models--user--Model-GGUF");
    write(&repo.join("refs/main"), COMMIT);
    for path in [
        repo.join("snapshots").join(COMMIT).join("Model-Q4_K_M.gguf"),
        repo.join("snapshots").join(COMMIT).join("Model-Q8_0.gguf"),
        home.path(".rustorch/models/modest.gguf"),
        home.path("my file.gguf"),
    ] {
        fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        fs::copy(&home.model, path).expect("a model");
    }
    home
}

/// The candidates for the last word.
fn candidates(home: &Home, words: &[&str]) -> Vec<String> {
    let lines = home.run_with("complete -- rustorch", words).quiet();
    lines.lines().map(|line| line.split('\t').next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn arguments_that_take_a_model_have_its_names() {
    let home = home();
    for words in [
        &["-m", "mod"][..],
        &["run", "-m", "mod"],
        &["run", "mod"],
        &["chat", "mod"],
        &["show", "mod"],
        &["inspect", "mod"],
        &["verify", "mod"],
        &["-v", "embed", "-m", "mod"],
    ] {
        assert_eq!(candidates(&home, words), ["modest", "model.gguf"], "{words:?}");
    }
    for command in ["rm", "where"] {
        assert_eq!(candidates(&home, &[command, "mod"]), ["modest"], "no file: {command}");
        assert!(candidates(&home, &[command, "qwen3:"]).is_empty(), "not here: {command}");
    }
    let quants = ["user/Model-GGUF:Q4_K_M", "user/Model-GGUF:Q8_0"];
    assert_eq!(candidates(&home, &["where", "user/"]), quants);
    assert_eq!(candidates(&home, &["-m", "qwen3:0"]), ["qwen3:0.6b"]);
    assert_eq!(candidates(&home, &["pull", "qwen3:0"]), ["qwen3:0.6b"]);
    assert!(candidates(&home, &["pull", "mod"]).is_empty(), "it is here");
    assert_eq!(candidates(&home, &["run", "--model=modes"]), ["--model=modest"]);
}

/// The rules of the command line hold: a command may be missing or follow its options.
#[test]
fn commands_and_options_are_completed_where_they_may_be() {
    let home = Home::new();
    let commands = candidates(&home, &[""]);
    assert_eq!(commands[..2], ["chat", "run"]);
    assert!(
        commands.iter().all(|command| !command.starts_with('-') && command != "complete"),
        "{commands:?}"
    );
    assert_eq!(candidates(&home, &["-v", "-m", "x", "insp"]), ["inspect"]);
    assert_eq!(candidates(&home, &["--context-s"]), ["--context-shift"], "of a chat");
    assert_eq!(candidates(&home, &["-p", "x", "--parse-s"]), ["--parse-special"], "of run");
    assert_eq!(candidates(&home, &["--backend", "hyb"]), ["hybrid-f32"]);
    assert_eq!(candidates(&home, &["-ngl", "9", "--single"]), ["--single-turn"]);
    assert!(candidates(&home, &["run", "--nothing-like-it"]).is_empty());
    let described = home.run_with("complete -- rustorch", &["inspe"]).quiet();
    assert!(described.starts_with("inspect\tList the contents"), "{described}");
}

/// The folder of the program comes first, as if it were installed.
fn shell(home: &Home, program: &str) -> Option<Command> {
    if Command::new(program).args(["-c", ":"]).output().is_err() {
        eprintln!("skipped: no {program}");
        return None;
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_rustorch")).parent().expect("a folder");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command.envs([("PATH", format!("{}:{path}", folder.display())), ("PS1", "$ ".to_owned())]);
    command.env("TERM", "dumb").env("HOME", home.folder.path()).current_dir(home.folder.path());
    for name in ["HF_HOME", "HF_HUB_CACHE", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME"] {
        command.env_remove(name);
    }
    Some(command)
}

/// Types beginnings of command lines with a tab, and checks what they print.
fn type_in(mut session: PtySession, home: &Home) {
    let models = home.path(".rustorch/models/modest.gguf");
    let snapshot = home.path(".cache/huggingface/hub/models--user--Model-GGUF/snapshots").join(COMMIT);
    for (typed, expected) in [
        ("where mod\t", models.display().to_string()),
        ("whe\tmod\t", models.display().to_string()),
        // A name with a colon, at which bash splits words.
        ("where user/Model-GGUF:Q8\t", snapshot.join("Model-Q8_0.gguf").display().to_string()),
        ("where user/Mod\t8\t", snapshot.join("Model-Q8_0.gguf").display().to_string()),
        ("tokenize --model=model.\t --id\t 'a'", "[".to_owned()),
        ("inspect my\t| head -n 1", "my file.gguf".to_owned()),
        ("inspect ~/my\t| head -n 1", "my file.gguf".to_owned()),
    ] {
        session.send_line(&format!("rustorch {typed}; echo 'the'  end")).expect("typed");
        let printed = session.exp_string("the end\r\n").expect("the command ends");
        // What was typed is echoed on the first line.
        let printed = printed.rsplit_once("end\r\n").map_or(&*printed, |(_, printed)| printed);
        assert!(printed.contains(&expected), "{typed:?}: {expected} in {printed:?}");
    }
    session.send_line("exit").expect("typed");
    session.exp_eof().expect("the shell ends");
}

#[test]
fn bash_completes() {
    let home = home();
    let Some(mut command) = shell(&home, "bash") else { return };
    command.args(["--noprofile", "--norc", "-i"]);
    let mut session = spawn_command(command, Some(60_000)).expect("a terminal");
    session.send_line("source <(rustorch completions bash); echo 'rea'dy").expect("typed");
    session.exp_string("ready\r\n").expect("the script is read");
    type_in(session, &home);
}

#[test]
fn zsh_completes() {
    let home = home();
    let Some(mut command) = shell(&home, "zsh") else { return };
    command.args(["-f", "-i"]);
    let mut session = spawn_command(command, Some(60_000)).expect("a terminal");
    let load = "autoload -Uz compinit; compinit -u -D; source <(rustorch completions zsh)";
    session.send_line(&format!("{load}; echo 'rea'dy")).expect("typed");
    session.exp_string("ready\r\n").expect("the script is read");
    type_in(session, &home);
}

#[test]
fn fish_completes() {
    let home = home();
    let Some(mut command) = shell(&home, "fish") else { return };
    let script = "rustorch completions fish | source
        for line in 'where mod' 'where user/Model-GGUF:Q8' 'inspect ~/my' 'run --model=mode'
            complete -C \"rustorch $line\"
        end";
    let ran = Ran::from(command.args(["--no-config", "-c", script]).output().expect("fish starts"));
    let lines = ran.quiet();
    let names: Vec<_> = lines.lines().map(|line| line.split('\t').next().unwrap_or_default()).collect();
    let expected =
        ["modest", "user/Model-GGUF:Q8_0", "~/my file.gguf", "--model=modest", "--model=model.gguf"];
    assert_eq!(names, expected);
}

#[test]
fn other_shells_have_a_script() {
    let home = Home::new();
    for (name, part) in [("elvish", "edit:completion"), ("powershell", "Register-ArgumentCompleter")] {
        let script = home.run(&format!("completions {name}")).quiet();
        assert!(script.contains(part) && script.contains("--gpu-layers"), "{name}");
    }
}
