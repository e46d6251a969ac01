//! Who may use how much, and over which connections.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;

use serde_json::{Value as Json, json};
use server::{Keys, Tls};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::client::{Answer, Running};

/// A server with a file of keys.
fn keyed(keys: &str) -> Running {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    std::fs::write(&path, keys).expect("a file");
    let keys = Keys::read(&path).expect("good keys");
    Running::with(|config| config.keys = keys)
}

fn ask(server: &Running, key: &str, body: &Json) -> Answer {
    let bearer = format!("Bearer {key}");
    let headers = [("content-type", "application/json"), ("authorization", &*bearer)];
    server.send("POST", "/v1/completions", &headers, body.to_string().as_bytes())
}

fn short() -> Json {
    json!({ "prompt": "The capital", "max_tokens": 2, "ignore_eos": true })
}

/// Counting is work, too.
#[test]
fn counts_of_tokens_are_requests() {
    let messages = json!([{ "role": "user", "content": "Hi" }]);
    let body = json!({ "model": "demo", "max_tokens": 1, "messages": messages, "input": messages });
    for path in
        ["/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/chat/completions/input_tokens"]
    {
        let server = keyed("few requests=1");
        let headers = [("content-type", "application/json"), ("authorization", "Bearer few")];
        let statuses =
            [0; 2].map(|_| server.send("POST", path, &headers, body.to_string().as_bytes()).status);
        assert_eq!(statuses, [200, 429], "{path}");
    }
}

#[test]
fn a_key_has_so_many_requests_and_tokens() {
    let server = keyed("# comment\nfree\nfew requests=2\n  talks tokens=12 \n");
    for _ in 0..4 {
        ask(&server, "free", &short()).json();
    }
    for _ in 0..2 {
        ask(&server, "few", &short()).json();
    }
    let refused = ask(&server, "few", &short());
    let seconds: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
    let error = refused.error(429);
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("rate_limit_exceeded")));
    // What it has begun may take more tokens than are left; then there are none.
    let long = json!({ "prompt": "The capital", "max_tokens": 40, "ignore_eos": true });
    ask(&server, "talks", &long).json();
    ask(&server, "talks", &short()).error(429);
    ask(&server, "free", &short()).json();
    // Other protocols have shapes of their own.
    let body = json!({ "model": "demo", "max_tokens": 1, "messages": [{ "role": "user", "content": "a" }] });
    let headers = [("content-type", "application/json"), ("x-api-key", "few")];
    let refused = server.send("POST", "/v1/messages", &headers, body.to_string().as_bytes());
    assert_eq!(refused.status, 429);
    let error: Json = serde_json::from_str(&refused.body).expect("JSON");
    assert_eq!(error["error"]["type"], "rate_limit_error");
}

#[test]
fn a_key_has_so_many_requests_at_once() {
    let server = keyed("one concurrency=1\nother\n");
    let long = json!({ "prompt": "The capital", "max_tokens": 300, "ignore_eos": true, "stream": true });
    let headers = [("content-type", "application/json"), ("authorization", "Bearer one")];
    let stream = server.open("POST", "/v1/completions", &headers, long.to_string().as_bytes());
    let mut first = [0; 16];
    (&stream).read_exact(&mut first).expect("an answer begins");
    ask(&server, "one", &short()).error(429);
    ask(&server, "other", &short()).json();
    drop(stream);
    // The place is free when the server sees that the client has left.
    let began = std::time::Instant::now();
    while ask(&server, "one", &short()).status == 429 {
        assert!(began.elapsed().as_secs() < 60, "the place is never free");
        thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn quotas_that_cannot_be_read_are_refused_by_their_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("keys");
    for quota in ["requests", "requests=0", "requests=many", "speed=3", "tokens=-1", "requests=5,tokens=3"] {
        std::fs::write(&path, format!("a\nb {quota}\n")).expect("a file");
        let error = Keys::read(&path).expect_err("a wrong quota").to_string();
        assert!(error.contains("line 2") && error.contains(quota), "{error}");
    }
}

#[test]
fn connections_are_encrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let tls = Tls::read(&certificate, &key).expect("a good pair");
    let server = Running::with(|config| config.tls = Some(tls));

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&certificate).expect("a certificate")).expect("a root");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let stream = TcpStream::connect(server.address).expect("it listens");
    let mut stream = StreamOwned::new(connection, stream);
    stream
        .write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");

    // Who does not speak TLS gets no answer, and disturbs nobody.
    let mut plain = TcpStream::connect(server.address).expect("it listens");
    plain.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is read");
    let mut answer = Vec::new();
    // The alert of TLS, or nothing.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

/// The certificate that a server shows to those who connect now.
fn shown(server: &Running, roots: RootCertStore) -> Result<Vec<u8>, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).map_err(|error| error.to_string())?;
    }
    Ok(connection.peer_certificates().and_then(|chain| chain.first()).expect("a certificate").to_vec())
}

#[test]
fn certificates_are_replaced_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut roots = RootCertStore::empty();
    let mut made = |name: &str| {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let (certificate, key) = (folder.path().join(name), folder.path().join(name.to_owned() + ".key"));
        std::fs::write(&certificate, made.cert.pem()).expect("a file");
        std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
        roots.add(made.cert.der().clone()).expect("a root");
        (Tls::read(&certificate, &key).expect("a good pair"), made.cert.der().to_vec())
    };
    let ((first, one), (second, other)) = (made("one"), made("other"));
    let server = Running::with(|config| config.tls = Some(first));
    assert_eq!(shown(&server, roots.clone()), Ok(one));
    server.reload.encrypt(second);
    assert_eq!(shown(&server, roots), Ok(other));
}

#[test]
fn certificates_that_cannot_be_used_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    let made = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let (one, other) = (made(), made());
    let certificate = at("cert.pem", &one.cert.pem());
    let key = at("key.pem", &other.signing_key.serialize_pem());
    let empty = at("empty.pem", "");
    let error = |certificate, key| Tls::read(certificate, key).expect_err("unusable").to_string();
    assert!(error(&certificate, &key).contains("cannot be used"), "{}", error(&certificate, &key));
    assert!(error(&empty, &key).contains("empty.pem has no certificate"));
    assert!(error(&certificate, &empty).contains("the key in"), "{}", error(&certificate, &empty));
    let gone = folder.path().join("gone.pem");
    assert!(error(&gone, &key).contains("gone.pem"));
}
