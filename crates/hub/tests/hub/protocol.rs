//! What requests have, and what answers mean.

use hub::{Client, Error, Revision};

use crate::common::{FILE, World, name, repo};

#[test]
fn a_repository_is_described() {
    let world = World::with(5000);
    world.hub.add("user/Model-GGUF", "README.md", "Hello");
    let snapshot = world.snapshot().expect("a snapshot");
    assert_eq!(snapshot.commit.as_str(), world.hub.commit("user/Model-GGUF"));
    let files: Vec<_> =
        snapshot.files.iter().map(|file| (file.name.as_str(), file.bytes, file.sha256.is_some())).collect();
    assert_eq!(files, [(FILE, Some(5000), true), ("README.md", Some(5), false)]);
    assert_eq!(
        (snapshot.is_gated, snapshot.license.as_deref(), snapshot.downloads),
        (false, Some("apache-2.0"), Some(7))
    );
}

#[test]
fn names_of_the_server_cannot_escape() {
    let world = World::with(5000);
    for bad in ["../../escape.gguf", "/etc/escape.gguf", "a/../../escape.gguf"] {
        world.hub.add("user/Model-GGUF", bad, "x");
    }
    let snapshot = world.snapshot().expect("a snapshot");
    assert_eq!(snapshot.files.len(), 1, "{snapshot:?}");
}

#[test]
fn the_token_goes_to_the_hub_only() {
    let world = World::with(5000).token("hf_good");
    world.hub.behave(|behaviour| behaviour.is_private = true);
    world.pull().expect("a pull");
    let seen = world.hub.seen();
    assert!(
        seen.iter().any(|request| request.by_file_server)
            && seen.iter().any(|request| !request.by_file_server)
    );
    for request in seen {
        let expected = (!request.by_file_server).then(|| "Bearer hf_good".to_owned());
        assert_eq!(request.authorization, expected, "{}", request.line);
    }
}

#[test]
fn renamed_repositories_are_found_with_the_token() {
    let world = World::with(5000).token("hf_good");
    world.hub.behave(|behaviour| behaviour.is_private = true);
    world.hub.rename("user/Model-GGUF", "user/New-GGUF");
    assert_eq!(world.pull().expect("a pull").bytes, 5000);
}

#[test]
fn without_a_token_private_repositories_look_missing() {
    let world = World::with(5000);
    world.hub.behave(|behaviour| behaviour.is_private = true);
    let error = world.refused();
    assert!(matches!(error, Error::NoToken { .. }), "{error}");
    let said = error.to_string();
    assert!(
        said.contains("user/Model-GGUF") && said.contains("HF_TOKEN") && said.contains("hf auth login"),
        "{said}"
    );
}

#[test]
fn a_wrong_token_is_blamed() {
    let world = World::with(5000).token("hf_bad");
    let error = world.refused();
    assert!(matches!(&error, Error::BadToken { origin, .. } if origin == "HF_TOKEN"), "{error}");
    assert!(!error.to_string().contains("hf_bad"), "{error}");
}

#[test]
fn gated_repositories_say_where_to_ask() {
    for token in [None, Some("hf_good")] {
        let mut world = World::with(5000);
        if let Some(token) = token {
            world = world.token(token);
        }
        world.hub.behave(|behaviour| behaviour.is_gated = true);
        assert!(world.snapshot().expect("it may be seen").is_gated);
        let error = world.refused();
        let said = error.to_string();
        assert!(matches!(error, Error::Gated { .. }), "{said}");
        assert!(said.contains(&format!("{}/user/Model-GGUF", world.hub.endpoint)), "{said}");
        assert_eq!(said.contains("set HF_TOKEN"), token.is_none(), "{said}");
    }
    let world = World::with(5000).token("hf_member");
    world.hub.behave(|behaviour| behaviour.is_gated = true);
    world.pull().expect("a member may");
}

#[test]
fn what_is_missing_is_named() {
    let world = World::with(5000).token("hf_good");
    let client = world.client();
    let error = client.snapshot(&"user/Nothing".parse().expect("a name"), &Revision::main(), &|_| {});
    assert!(matches!(error, Err(Error::NoRepository { repo, .. }) if repo.as_str() == "user/Nothing"));
    let revision: Revision = "v9".parse().expect("a revision");
    let error = client.snapshot(&repo(), &revision, &|_| {});
    assert!(matches!(error, Err(Error::NoRevision { revision, .. }) if revision.as_str() == "v9"));
    let snapshot = world.snapshot().expect("a snapshot");
    let error = client.pull(&world.cache, &snapshot, &[name("no.gguf")], &|_| {});
    assert!(matches!(error, Err(Error::NoFile { file, .. }) if file.as_str() == "no.gguf"));
    let error =
        client.pull_address(&format!("{}/no.gguf", world.hub.files), &world.folder.path().join("x"), &|_| {});
    assert!(matches!(error, Err(Error::NotFound { .. })), "{error:?}");
}

#[test]
fn other_servers_are_no_hub() {
    let mut world = World::with(5000);
    world.settings.endpoint = world.hub.files.clone();
    assert!(matches!(world.refused(), Error::NoRepository { .. } | Error::NotFound { .. }));
    world.hub.behave(|behaviour| behaviour.file_failures = [(200, "")].into());
    assert!(matches!(world.refused(), Error::Protocol { .. }));
}

#[test]
fn without_a_network_the_host_is_named() {
    let mut world = World::with(5000);
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    world.settings.endpoint = format!("http://{free}");
    let error = world.refused();
    assert!(matches!(&error, Error::Network { host, .. } if host == "127.0.0.1"), "{error}");
    world.settings.endpoint = "http://no-such-host.invalid".to_owned();
    let error = world.refused();
    assert!(matches!(&error, Error::UnknownHost { host } if host == "no-such-host.invalid"), "{error:?}");
    world.settings.endpoint = "ftp://x".to_owned();
    let error = Client::new(&world.settings).expect_err("a refusal");
    assert!(matches!(&error, Error::Endpoint { address } if address == "ftp://x"), "{error:?}");
    assert!(error.to_string().starts_with("HF_ENDPOINT is `ftp://x`"), "{error}");
}

#[test]
fn offline_nothing_is_sent() {
    let mut world = World::with(5000);
    world.settings.offline = true;
    assert!(matches!(world.refused(), Error::Offline { .. }));
    assert_eq!(world.hub.seen(), []);
}
