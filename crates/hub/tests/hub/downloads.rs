//! Transfers that succeed, in spite of the server.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hub::Event;

use crate::common::{FILE, MIB, World, bytes, files_in, name};

/// More than one chunk for each connection.
const LARGE: usize = 300 * MIB + 12345;

#[test]
fn the_cache_is_laid_out_as_by_huggingface_hub() {
    let world = World::with(5000);
    world.hub.add("user/Model-GGUF", "folder/b c.gguf", bytes(10));
    let snapshot = world.snapshot().expect("a snapshot");
    let names = [name(FILE), name("folder/b c.gguf")];
    let files = world.client().pull(&world.cache, &snapshot, &names, &|_| {}).expect("a pull");
    let folder = world.folder_of_repo();
    let commit = world.hub.commit("user/Model-GGUF");
    assert_eq!(files[0].path, folder.join("snapshots").join(&commit).join(FILE));
    assert_eq!(fs::read_to_string(folder.join("refs/main")).expect("a ref"), commit);
    let hash = testkit::hub::sha256(&bytes(5000));
    let small = &testkit::hub::sha256(&bytes(10))[..40];
    #[cfg(unix)]
    {
        assert_eq!(fs::read_link(&files[0].path).expect("a link"), Path::new("../../blobs").join(&hash));
        assert_eq!(fs::read_link(&files[1].path).expect("a link"), Path::new("../../../blobs").join(small));
    }
    assert_eq!(fs::read(&files[1].path).expect("bytes"), bytes(10));
    let cache = &world.settings.cache;
    assert!(cache.join(".locks/models--user--Model-GGUF").join(format!("{hash}.lock")).is_file());
    assert!(
        fs::read_to_string(cache.join("CACHEDIR.TAG")).expect("a tag").starts_with("Signature: 8a477f59")
    );
    assert_eq!(files_in(&folder.join("blobs")).len(), 2);
}

#[test]
fn large_files_come_over_several_connections() {
    let world = World::with(LARGE);
    let fetched = world.pull().expect("a pull");
    assert!(fs::read(&fetched.path).expect("bytes") == bytes(LARGE));
    assert_eq!((fetched.bytes, fetched.transferred), (LARGE as u64, LARGE as u64));
    let seen = world.hub.seen();
    // A request whose connection broke before it was answered is made again.
    let ranges: BTreeSet<_> =
        seen.iter().filter(|request| request.by_file_server).map(|request| request.range.clone()).collect();
    assert_eq!(ranges.len(), 5, "{ranges:?}");
    assert!(ranges.contains(&Some(format!("bytes={}-{}", 256 * MIB, LARGE - 1))), "{ranges:?}");
    // Nothing comes twice.
    assert_eq!(world.pull().expect("a pull").transferred, 0);
    assert!(world.hub.seen().iter().all(|request| !request.by_file_server));
}

#[test]
fn connections_that_break_off_are_continued() {
    let world = World::with(40 * MIB);
    world.hub.behave(|behaviour| behaviour.cuts = [9 * MIB, 1, 17 * MIB, 0, 8 * MIB].into());
    let retries = Mutex::new(0);
    let watch = |event: Event<'_>| {
        if let Event::Retrying { .. } = event {
            *retries.lock().expect("a number") += 1;
        }
    };
    let fetched = world.pull_watched(&watch).expect("a pull");
    assert!(fs::read(fetched.path).expect("bytes") == bytes(40 * MIB));
    assert!(retries.into_inner().expect("a number") >= 4);
}

#[test]
fn a_server_that_stalls_is_asked_again() {
    let world = World::with(20 * MIB);
    world.hub.behave(|behaviour| behaviour.stall = Some(3 * MIB));
    let start = Instant::now();
    assert!(fs::read(world.pull().expect("a pull").path).expect("bytes") == bytes(20 * MIB));
    assert!(start.elapsed() < Duration::from_secs(30));
}

#[test]
fn servers_without_ranges_are_used_with_one_connection() {
    let world = World::with(20 * MIB);
    world.hub.behave(|behaviour| {
        behaviour.has_ranges = false;
        behaviour.cuts = [9 * MIB, 2].into();
    });
    assert!(fs::read(world.pull().expect("a pull").path).expect("bytes") == bytes(20 * MIB));
    assert_eq!(world.hub.seen().iter().filter(|request| request.by_file_server).count(), 3);
}

#[test]
fn servers_may_ask_to_wait() {
    let world = World::with(5000);
    world.hub.behave(|behaviour| {
        behaviour.failures = [
            ("/api/", 429, "Retry-After: 1\r\n"),
            ("/api/", 429, "RateLimit: \"api\";r=0;t=1\r\n"),
            ("/resolve/", 503, ""),
            ("/resolve/", 500, ""),
        ]
        .into();
        behaviour.file_failures = [(429, "Retry-After: 1\r\n"), (500, "")].into();
    });
    let start = Instant::now();
    world.pull().expect("a pull");
    assert!(start.elapsed() >= Duration::from_secs(3));
}

#[test]
fn an_address_that_expires_is_asked_for_again() {
    let world = World::with(100 * MIB);
    world.hub.behave(|behaviour| {
        behaviour.cuts = [MIB].into();
        behaviour.file_failures =
            [(206, "Content-Range: bytes 0-1/104857600\r\n"), (403, ""), (403, "")].into();
    });
    // The first answer, which ends at once, is only there to begin.
    assert!(fs::read(world.pull().expect("a pull").path).expect("bytes") == bytes(100 * MIB));
    let asked = world.hub.seen().iter().filter(|request| request.line.starts_with("HEAD")).count();
    assert!(asked >= 3, "{asked}");
}

#[test]
fn other_addresses_work_as_well() {
    let world = World::with(20 * MIB);
    let target = world.folder.path().join("some/model.gguf");
    let url = format!("{}/user/Model-GGUF/{FILE}?Signature=abc", world.hub.files);
    let fetched = world.client().pull_address(&url, &target, &|_| {}).expect("a pull");
    assert!(fs::read(&fetched.path).expect("bytes") == bytes(20 * MIB));
    assert_eq!(fetched.path, target);
}

#[test]
fn the_beginning_of_a_file_can_be_read() {
    let world = World::with(20 * MIB);
    let snapshot = world.snapshot().expect("a snapshot");
    let head = world.client().head(&snapshot, &name(FILE), 5000, &|_| {}).expect("a head");
    assert_eq!(head, bytes(5000));
    world.hub.behave(|behaviour| behaviour.has_ranges = false);
    let head = world.client().head(&snapshot, &name(FILE), 5000, &|_| {}).expect("a head");
    assert_eq!(head, bytes(5000));
}
