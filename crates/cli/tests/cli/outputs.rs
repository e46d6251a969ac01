//! Files that commands write: what they replace, and what never.

use std::fs;

use trace::Trace;

use crate::common::{Home, write};

const TRACE: &str = "trace -m MODEL --tokens 1,300,7 -o";
const BASE: &str = "perplexity -m MODEL -f text.txt -c 8 --save-logits";
const PAGE: &str = "compare a.safetensors -m MODEL --html";
const LOGITS: &str = "logits -m MODEL --tokens 1,300,7 -o";

/// All commands that write a file, but for its name.
const ALL: [(&str, &str); 6] = [
    (TRACE, ""),
    (BASE, ""),
    (PAGE, ""),
    (LOGITS, ""),
    ("quantize MODEL", "Q8_0"),
    ("synth stories260k", "Q8_0"),
];

/// A home with what the commands read.
fn home() -> Home {
    let home = Home::new();
    write(&home.path("text.txt"), "It was a dark and stormy night. ".repeat(3));
    home.run(&format!("{TRACE} a.safetensors")).quiet();
    home
}

#[test]
fn a_page_replaces_only_pages() {
    let home = home();
    write(&home.path("notes.txt"), "not to be lost");
    fs::copy(home.path("a.safetensors"), home.path("b.part")).expect("a copy");
    for (args, said) in [
        ("compare a.safetensors -m MODEL --html a.safetensors", "--html would write to a.safetensors"),
        ("compare a.safetensors -m MODEL --html MODEL", "model.gguf is read; name another file"),
        ("compare a.safetensors b.part --html ./b.part", "but b.part is read"),
        ("compare a.safetensors -m MODEL --html notes.txt", "notes.txt: is there and is no page"),
        ("compare a.safetensors -m MODEL --html .", "is there and is no page"),
    ] {
        let model = fs::read(&home.model).expect("it is there");
        let error = home.run(args).failed(2);
        assert!(error.contains(said), "{args}: {error}");
        assert!(Trace::open(home.path("a.safetensors")).is_ok() && Trace::open(home.path("b.part")).is_ok());
        assert_eq!(fs::read(&home.model).expect("it is there"), model);
        assert_eq!(fs::read(home.path("notes.txt")).expect("it is there"), b"not to be lost");
    }
    write(&home.path("empty.html"), "");
    for page in ["page.html", "page.html", "empty.html"] {
        home.run(&format!("{PAGE} {page}")).quiet();
        let page = fs::read_to_string(home.path(page)).expect("a page");
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    }
}

/// A file of another kind stays, and so does one that is read-only; what is of the kind is replaced, with its
/// permissions.
#[cfg(unix)]
#[test]
fn only_a_commands_own_files_are_replaced() {
    use std::os::unix::fs::PermissionsExt;
    let home = home();
    for (number, (command, more)) in ALL.into_iter().enumerate() {
        write(&home.path("notes.txt"), "not to be lost");
        let ran = home.run(&format!("{command} notes.txt {more}"));
        assert!(ran.code != Some(0) && ran.stderr.contains("is there and is no "), "{command}: {ran:?}");
        let out = format!("out{number}");
        home.run(&format!("{command} {out} {more}")).ok();
        let set = |mode| {
            fs::set_permissions(home.path(&out), PermissionsExt::from_mode(mode)).expect("it is ours");
        };
        let first = fs::read(home.path(&out)).expect("a file");
        set(0o444);
        let ran = home.run(&format!("{command} {out} {more}"));
        assert!(ran.code != Some(0) && ran.stderr.contains("is read-only"), "{command}: {ran:?}");
        set(0o640);
        home.run(&format!("{command} {out} {more}")).ok();
        let mode = fs::metadata(home.path(&out)).expect("a file").permissions().mode();
        assert_eq!((mode & 0o777, fs::read(home.path(&out)).expect("a file")), (0o640, first), "{command}");
    }
    assert_eq!(fs::read(home.path("notes.txt")).expect("it is there"), b"not to be lost");
    no_temporary_files(&home);
}

#[track_caller]
fn no_temporary_files(home: &Home) {
    let names =
        fs::read_dir(home.folder.path()).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let left: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".rustorch-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A file that would be larger than the process may write is an error, and nothing is left behind.
#[cfg(unix)]
#[test]
fn a_limit_of_file_sizes_is_an_error() {
    let home = home();
    let limited = |args: &str| {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "ulimit -f 1; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_rustorch")]);
        command.args(args.split_whitespace()).current_dir(home.folder.path()).env("RUSTORCH_BACKEND", "cpu");
        command.output().expect("it runs")
    };
    for (command, more) in ALL {
        let ended = limited(&format!("{command} out {more}").replace("MODEL", "model.gguf"));
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.code().is_some_and(|code| code > 0), "{command}: {ended:?}");
        assert!(said.contains("arge"), "File too large: {command}: {said}");
        assert!(!home.path("out").exists(), "{command}");
    }
    no_temporary_files(&home);
}

/// What a link leads to is written, whether or not it is there; the link stays.
#[cfg(unix)]
#[test]
fn links_stay_links() {
    let home = home();
    for (i, command) in [TRACE, BASE, PAGE].into_iter().enumerate() {
        let (folder, link, file) = (format!("runs{i}"), format!("latest{i}"), format!("runs{i}/1"));
        fs::create_dir(home.path(&folder)).expect("a folder");
        std::os::unix::fs::symlink(&file, home.path(&link)).expect("a link");
        let mut written = Vec::new();
        for _ in 0..2 {
            home.run(&format!("{command} {link}")).ok();
            assert!(home.path(&link).is_symlink(), "{command}");
            written.push(fs::read(home.path(&file)).expect("it is written"));
            fs::write(home.path(&file), "").expect("emptied");
        }
        assert!(!written[0].is_empty() && written[0] == written[1], "{command}");
        assert_eq!(fs::read_dir(home.path(&folder)).expect("a folder").count(), 1, "{command}");
    }
    // A link without an end is no file.
    std::os::unix::fs::symlink("loop", home.path("loop")).expect("a link");
    home.run(&format!("{TRACE} loop")).failed(1);
}

/// Pipes and what stdout goes to get the bytes that a file would get.
#[cfg(target_os = "linux")]
#[test]
fn pipes_and_descriptors_take_the_bytes() {
    use std::io::Read;
    let home = home();
    for (number, (command, more)) in ALL.into_iter().enumerate() {
        home.run(&format!("{command} file{number} {more}")).ok();
        let expected = fs::read(home.path(&format!("file{number}"))).expect("a file");
        let pipe = home.path(&format!("pipe{number}"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            fs::File::open(pipe).and_then(|mut pipe| pipe.read_to_end(&mut all)).map(|_| all)
        });
        home.run(&format!("{command} pipe{number} {more}")).ok();
        assert!(reader.join().expect("it ends").expect("a pipe") == expected, "{command}");
    }
    // What was there before stays, and what is printed beside it follows.
    for (command, more) in [(LOGITS, ""), ("quantize MODEL", "Q8_0")] {
        fs::write(home.path("stdout"), "before").expect("a file");
        let stdout = fs::OpenOptions::new().append(true).open(home.path("stdout")).expect("a file");
        let mut child = home.command(&format!("{command} /dev/stdout {more}"));
        let status = child.stdout(stdout).stderr(std::process::Stdio::null()).status().expect("it runs");
        assert_eq!(status.code(), Some(0), "{command}");
        let file = if command == LOGITS { "file3" } else { "file4" };
        let expected = [&b"before"[..], &fs::read(home.path(file)).expect("a file")].concat();
        assert!(fs::read(home.path("stdout")).expect("a file") == expected, "{command}");
    }
}

/// A trace that nobody writes to a pipe would be waited for.
#[cfg(unix)]
#[test]
fn pipes_are_no_traces() {
    use std::time::{Duration, Instant};
    let home = home();
    nix::unistd::mkfifo(&home.path("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    for (command, code) in [("compare -m MODEL", 2)] {
        for name in ["pipe"] {
            let mut child = home.command(&format!("{command} {name}"));
            let mut child = child.stdout(std::process::Stdio::null()).spawn().expect("it runs");
            let begin = Instant::now();
            let status = loop {
                match child.try_wait().expect("the system knows") {
                    Some(status) => break status,
                    None if begin.elapsed() > Duration::from_secs(60) => {
                        child.kill().expect("it is there");
                        panic!("{command} {name} waits");
                    }
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            assert_eq!(status.code(), Some(code), "{command} {name}");
        }
    }
}
