//! What is replaced, what never, and what is left behind.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use gguf::output::{Error, OutFile, Target, remove_unfinished};
use tempfile::{TempDir, tempdir};

fn is_note(path: &Path) -> bool {
    fs::read(path).is_ok_and(|note| note.starts_with(b"note:"))
}

fn target(path: &Path) -> Result<Target, Error> {
    Target::new(path, "note", is_note)
}

fn begin(path: &Path) -> OutFile {
    let mut file = target(path).expect("a free name").create().expect("a new file");
    file.write_all(b"note: ").expect("room");
    file
}

fn folder() -> TempDir {
    tempdir().expect("a folder")
}

fn names(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_file_has_its_name_when_it_is_whole() {
    let folder = folder();
    let path = folder.path().join("a");
    let mut file = begin(&path);
    assert!(!path.exists());
    file.write_all(b"whole").expect("room");
    file.finish().expect("its name");
    assert_eq!(fs::read(&path).expect("a file"), b"note: whole");
    assert_eq!(names(&folder), ["a"]);
    drop(begin(&path));
    assert_eq!(
        (fs::read(&path).expect("a file"), names(&folder)),
        (b"note: whole".to_vec(), vec!["a".into()])
    );
}

#[test]
fn writers_of_one_name_do_not_share_a_file() {
    let folder = folder();
    let path = folder.path().join("a");
    fs::write(&path, "").expect("an empty file");
    let (mut first, mut second) = (begin(&path), begin(&path));
    first.write_all(b"first").expect("room");
    second.write_all(b"second").expect("room");
    first.finish().expect("its name");
    assert_eq!(fs::read(&path).expect("a file"), b"note: first");
    second.finish().expect("its name");
    assert_eq!(fs::read(&path).expect("a file"), b"note: second");
    assert_eq!(names(&folder), ["a"]);
}

/// What got the name while the file was written is not replaced.
#[test]
fn a_file_that_appears_meanwhile_stays() {
    let folder = folder();
    let path = folder.path().join("a");
    let file = begin(&path);
    fs::write(&path, "mine").expect("a file");
    file.finish().expect_err("the name is taken");
    assert_eq!((fs::read(&path).expect("a file"), names(&folder)), (b"mine".to_vec(), vec!["a".into()]));
}

#[test]
fn only_what_is_of_the_kind_is_replaced() {
    let folder = folder();
    let path = folder.path().join("a");
    for (content, mode, replaced) in [("", 0o644, true), ("note: 1", 0o600, true), ("mine", 0o644, false)] {
        fs::write(&path, content).expect("a file");
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("permissions");
        assert_eq!(target(&path).is_ok(), replaced, "{content}");
        if replaced {
            begin(&path).finish().expect("its name");
            let mode_after = fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
            assert_eq!((fs::read(&path).expect("a file"), mode_after), (b"note: ".to_vec(), mode));
        }
    }
    assert!(matches!(target(folder.path()), Err(Error::Occupied { what: "note", .. })));
}

#[test]
fn read_only_files_stay() {
    let folder = folder();
    let path = folder.path().join("a");
    fs::write(&path, "note: 1").expect("a file");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).expect("permissions");
    let error = target(&path).expect_err("it is read-only");
    assert!(matches!(error, Error::ReadOnly { .. }) && error.to_string().contains("read-only"), "{error}");
}

/// The error has the system's reason, and not the temporary name.
#[test]
fn the_reason_for_no_file_is_the_systems() {
    let folder = folder();
    let path = folder.path().join("none/a");
    let reason = fs::File::create(&path).expect_err("no folder");
    let error = target(&path).expect("a free name").create().expect_err("no folder");
    assert_eq!(error.to_string(), format!("{}: cannot create it: {reason}", path.display()));
}

/// A new file has the permissions of any new file.
#[test]
fn the_umask_decides_for_new_files() {
    let folder = folder();
    let (ours, theirs) = (folder.path().join("a"), folder.path().join("b"));
    begin(&ours).finish().expect("its name");
    fs::write(&theirs, "").expect("a file");
    let mode = |path| fs::metadata(path).expect("a file").permissions().mode();
    assert_eq!(mode(&ours), mode(&theirs));
}

#[test]
fn links_stay_links() {
    let folder = folder();
    let (link, loop_) = (folder.path().join("link"), folder.path().join("loop"));
    symlink("to", &link).expect("a link");
    for _ in 0..2 {
        begin(&link).finish().expect("its name");
        assert!(link.is_symlink() && is_note(&folder.path().join("to")));
    }
    symlink("loop", &loop_).expect("a link");
    target(&loop_).expect_err("it goes in a circle");
}

#[test]
fn a_pipe_gets_the_bytes_in_order() {
    let folder = folder();
    let path = folder.path().join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut all = String::new();
            fs::File::open(path).expect("a pipe").read_to_string(&mut all).expect("text");
            all
        }
    });
    let mut file = target(&path).expect("a pipe").create_seekable().expect("a reader");
    file.write_all(b"____ last").expect("room");
    file.seek(SeekFrom::Start(0)).expect("any order");
    file.write_all(b"note").expect("room");
    file.finish().expect("a reader");
    assert_eq!(reader.join().expect("it ends"), "note last");
    assert_eq!(names(&folder), ["pipe"]);
}

/// The files are made by a separate process, because `remove_unfinished` removes all temporary files of its process.
#[test]
fn an_end_by_a_signal_leaves_nothing() {
    const FOLDER: &str = "OUTFILE_TEST_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        let _files = ["a", "b"].map(|name| begin(&Path::new(&folder).join(name)));
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 2);
        let _kept = remove_unfinished();
        std::process::exit(7);
    }
    let folder = folder();
    let this = std::env::current_exe().expect("a program");
    let mut command = std::process::Command::new(this);
    command.args(["--exact", "an_end_by_a_signal_leaves_nothing"]).env(FOLDER, folder.path());
    assert_eq!(command.output().expect("it runs").status.code(), Some(7));
    assert_eq!(names(&folder), [""; 0]);
}
