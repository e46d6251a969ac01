//! Several versions, several processes, and removal.

use std::fs;
use std::thread;
use std::time::Duration;

use hub::Revision;

use crate::common::{FILE, MIB, World, bytes, files_in, name, repo};

#[test]
fn a_new_commit_has_a_snapshot_of_its_own() {
    let world = World::with(5000);
    let first = world.pull().expect("a pull");
    world.hub.add("user/Model-GGUF", "README.md", "changed");
    world.hub.seen();
    let second = world.pull().expect("a pull");
    assert_ne!(first.path, second.path);
    // The bytes are there already.
    assert_eq!(second.transferred, 0);
    assert!(world.hub.seen().iter().all(|request| !request.by_file_server));
    let commits = world.cache.commits(&repo()).expect("commits");
    assert_eq!(commits.len(), 2);
    assert_eq!(commits[0].as_str(), world.hub.commit("user/Model-GGUF"));
    assert_eq!(world.cache.resolved_commit(&repo(), &Revision::main()).as_ref(), Some(&commits[0]));
    let files = world.cache.files(&repo(), &commits[0]).expect("files");
    assert_eq!(files.iter().map(|file| (file.name.as_str(), file.bytes)).collect::<Vec<_>>(), [(FILE, 5000)]);
    assert_eq!(world.cache.repositories().expect("repositories"), [repo()]);
}

#[test]
fn two_pulls_at_once_transfer_once() {
    let world = World::with(20 * MIB);
    world.hub.behave(|behaviour| behaviour.pace = Duration::from_millis(2));
    thread::scope(|scope| {
        let pulls = [(); 3].map(|()| scope.spawn(|| world.pull().expect("a pull").transferred));
        let transferred: u64 = pulls.map(|pull| pull.join().expect("a pull")).iter().sum();
        assert_eq!(transferred, 20 * MIB as u64);
    });
    assert_eq!(files_in(&world.folder_of_repo().join("blobs")).len(), 1);
}

/// `filelock` opens the lock file and calls `flock`, as this test does.
#[cfg(unix)]
#[test]
fn the_lock_of_another_program_is_respected() {
    let world = World::with(5000);
    let hash = testkit::hub::sha256(&bytes(5000));
    let locks = world.settings.cache.join(".locks/models--user--Model-GGUF");
    fs::create_dir_all(&locks).expect("a folder");
    let lock = fs::File::create(locks.join(format!("{hash}.lock"))).expect("a lock");
    lock.lock().expect("locked");
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            world.pull_watched(&|event| {
                if matches!(event, hub::Event::Waiting) {
                    sender.send(()).expect("a listener");
                }
            })
        });
        receiver.recv_timeout(Duration::from_secs(60)).expect("the pull waits");
        assert_eq!(world.visible(), [] as [std::path::PathBuf; 0]);
        lock.unlock().expect("unlocked");
    });
    assert_eq!(world.visible().len(), 1);
}

#[test]
fn what_is_being_downloaded_is_not_removed() {
    let world = World::with(20 * MIB);
    let hash = testkit::hub::sha256(&bytes(20 * MIB));
    world.hub.add("user/Model-GGUF", "Model-Q8_0.gguf", bytes(6000));
    let snapshot = world.snapshot().expect("a snapshot");
    world.client().pull(&world.cache, &snapshot, &[name("Model-Q8_0.gguf")], &|_| {}).expect("a pull");
    world.hub.behave(|behaviour| behaviour.pace = Duration::from_millis(2));
    thread::scope(|scope| {
        let pull = scope.spawn(|| world.pull().expect("a pull"));
        let unfinished = world.folder_of_repo().join(format!("blobs/{hash}.rustorch.incomplete.journal"));
        while !unfinished.exists() {
            assert!(!pull.is_finished());
            thread::sleep(Duration::from_millis(1));
        }
        let refused = world.cache.remove_unfinished(&repo());
        assert!(matches!(refused, Err(hub::Error::Busy { .. })), "{refused:?}");
        // The other file goes; the folder stays.
        assert_eq!(world.cache.remove(&repo(), &[name("Model-Q8_0.gguf")]).expect("removed"), 6000);
        assert!(unfinished.exists() && !pull.is_finished());
        assert!(fs::read(pull.join().expect("it ends").path).expect("bytes") == bytes(20 * MIB));
    });
}

#[test]
fn removal_leaves_what_others_use() {
    let world = World::with(5000);
    world.hub.add("user/Model-GGUF", "Model-Q8_0.gguf", bytes(6000));
    let snapshot = world.snapshot().expect("a snapshot");
    let names = [name(FILE), name("Model-Q8_0.gguf")];
    world.client().pull(&world.cache, &snapshot, &names, &|_| {}).expect("a pull");
    assert_eq!(world.cache.remove(&repo(), &[name(FILE)]).expect("removed"), 5000);
    assert_eq!(world.visible().len(), 1);
    assert_eq!(files_in(&world.folder_of_repo().join("blobs")).len(), 1);
    assert_eq!(world.cache.remove(&repo(), &[name("Model-Q8_0.gguf")]).expect("removed"), 6000);
    assert!(!world.folder_of_repo().exists());
    assert_eq!(world.cache.repositories().expect("repositories"), []);
}
