//! Transfers that fail, and what they leave behind.

use std::fs;

use hub::Error;
use testkit::hub::Behaviour;

use crate::common::{MIB, World, bytes, files_in};

#[test]
fn what_has_come_is_kept() {
    let world = World::with(40 * MIB);
    world.hub.behave(|behaviour| behaviour.cuts = [9 * MIB].into_iter().chain([0; 40]).collect());
    let error = world.refused();
    assert!(matches!(error, Error::Cut { .. }) && error.to_string().contains("kept"), "{error}");
    world.hub.behave(|behaviour| *behaviour = Behaviour::default());
    let fetched = world.pull().expect("a pull");
    assert!(fs::read(fetched.path).expect("bytes") == bytes(40 * MIB));
    // To the byte, not to a whole chunk.
    assert_eq!(fetched.transferred, 31 * MIB as u64);
    assert_eq!(files_in(&world.folder_of_repo().join("blobs")).len(), 1);
}

/// Each connection brings a small part of a chunk.
#[test]
fn connections_that_are_cut_early_advance() {
    let world = World::with(20 * MIB);
    world.hub.behave(|behaviour| behaviour.cuts = [MIB / 8; 150].into());
    assert!(fs::read(world.pull().expect("a pull").path).expect("bytes") == bytes(20 * MIB));
}

#[test]
fn a_wrong_hash_is_an_error() {
    let world = World::with(20 * MIB);
    world.hub.behave(|behaviour| behaviour.is_wrong = true);
    let error = world.refused();
    assert!(
        matches!(&error, Error::WrongHash { expected, .. } if *expected == testkit::hub::sha256(&bytes(20 * MIB)))
    );
    assert_eq!(files_in(&world.folder_of_repo().join("blobs")), [] as [std::path::PathBuf; 0]);
    world.hub.behave(|behaviour| behaviour.is_wrong = false);
    world.pull().expect("a pull");
}

/// As after a loss of power: the journal lists a chunk that never reached the disk.
#[test]
fn chunks_that_were_lost_come_again() {
    let world = World::with(20 * MIB);
    world.hub.behave(|behaviour| behaviour.cuts = [9 * MIB].into_iter().chain([0; 40]).collect());
    world.refused();
    let blobs = files_in(&world.folder_of_repo().join("blobs"));
    let unfinished =
        blobs.iter().find(|path| path.extension().is_some_and(|end| end == "incomplete")).expect("a file");
    let mut damaged = fs::read(unfinished).expect("bytes");
    damaged[..8 * MIB].fill(0);
    fs::write(unfinished, damaged).expect("written");
    world.hub.behave(|behaviour| *behaviour = Behaviour::default());
    assert!(fs::read(world.pull().expect("a pull").path).expect("bytes") == bytes(20 * MIB));
}

#[test]
fn a_full_disk_is_found_before_the_transfer() {
    let world = World::with(5000);
    world.hub.behave(|behaviour| behaviour.announced = Some(1 << 50));
    let error = world.refused();
    let Error::DiskFull { needed, free, .. } = error else { panic!("{error}") };
    assert!(needed == 1 << 50 && free > 0 && free < needed);
    assert!(world.hub.seen().iter().all(|request| !request.by_file_server));
}

#[test]
fn another_size_is_an_error() {
    let world = World::with(5000);
    for announced in [4000, 6000] {
        world.hub.behave(|behaviour| behaviour.announced = Some(announced));
        let error = world.refused();
        assert!(matches!(error, Error::Protocol { .. }), "{error}");
    }
    world.hub.behave(|behaviour| behaviour.has_ranges = false);
    assert!(matches!(world.refused(), Error::Protocol { .. }));
}

#[test]
fn a_range_that_is_not_there_is_an_error() {
    let world = World::with(5000);
    world.hub.behave(|behaviour| behaviour.file_failures = [(416, "")].into());
    let error = world.refused();
    assert!(matches!(error, Error::Range { start: 0, end: 4999, .. }), "{error}");
}

#[test]
fn a_server_that_keeps_failing_is_given_up() {
    let world = World::with(5000);
    world.hub.behave(|behaviour| behaviour.file_failures = [(502, ""); 20].into());
    assert!(matches!(world.refused(), Error::Server { status: 502, .. }));
    assert_eq!(world.hub.seen().iter().filter(|request| request.by_file_server).count(), 6);
    // 501 is final: the server does not know the method.
    world.hub.behave(|behaviour| behaviour.file_failures = [(501, ""); 20].into());
    world.hub.seen();
    let error = world.refused();
    assert!(matches!(error, Error::Server { status: 501, .. }), "{error}");
    assert!(!error.to_string().contains("try again"), "{error}");
    assert_eq!(world.hub.seen().iter().filter(|request| request.by_file_server).count(), 1);
    world.hub.behave(|behaviour| behaviour.file_failures = [(429, "Retry-After: 9000\r\n")].into());
    let error = world.refused();
    assert!(error.to_string().contains("9000 s"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_cache_that_cannot_be_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::with(5000);
    fs::create_dir_all(&world.settings.cache).expect("a folder");
    let set =
        |mode| fs::set_permissions(&world.settings.cache, fs::Permissions::from_mode(mode)).expect("a mode");
    set(0o555);
    if fs::write(world.settings.cache.join("probe"), "").is_ok() {
        eprintln!("skipped: this user may write everywhere");
        return;
    }
    let error = world.refused();
    assert!(error.to_string().contains("HF_HUB_CACHE"), "{error}");
    set(0o755);
    world.pull().expect("a pull");
    set(0o555);
    assert_eq!(world.pull().expect("what is there can be read").transferred, 0);
    set(0o755);
}
