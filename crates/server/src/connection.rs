//! Connections: encrypted or not, to clients that read what they get.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest};
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// A certificate and its key, by which connections are encrypted.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum TlsError {
    #[error("cannot read {what} in {path}: {source}; expected a PEM file")]
    Read { what: &'static str, path: String, source: pem::Error },
    #[error(
        "{path} has no certificate; expected a PEM file with the server's first, and then those that signed it"
    )]
    Empty { path: String },
    #[error("the certificate in {certificate} and the key in {key} cannot be used: {source}")]
    Pair { certificate: String, key: String, source: rustls::Error },
}

impl Tls {
    /// The certificates and the key in two PEM files.
    ///
    /// # Errors
    /// If a file cannot be read, or they do not belong together.
    pub fn read(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let wrong = |what: &'static str, path: &Path| {
            let path = path.display().to_string();
            move |source| TlsError::Read { what, path, source }
        };
        let chain =
            CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let chain = chain.map_err(wrong("the certificate", certificate))?;
        if chain.is_empty() {
            return Err(TlsError::Empty { path: certificate.display().to_string() });
        }
        let secret = PrivateKeyDer::from_pem_file(key).map_err(wrong("the key", key))?;
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, secret));
        let mut config = config.map_err(|source| TlsError::Pair {
            certificate: certificate.display().to_string(),
            key: key.display().to_string(),
            source,
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// Ends when the client has closed its side of a connection, of which `socket` is a copy; never without a copy. The HTTP library
/// notices that only where nothing follows a request: a line break, or the next request, would keep the work for a client that
/// has left.
pub(crate) async fn left(socket: Option<TcpStream>) {
    let Some(socket) = socket else { return std::future::pending().await };
    while let Ok(ready) = socket.ready(Interest::READABLE).await
        && !ready.is_read_closed()
    {
        // Nothing is read here: wait for the next event.
        let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
    }
}

/// The connection, and a copy of its socket to watch, unless too many files are open.
pub(crate) fn watched(stream: TcpStream) -> io::Result<(TcpStream, Option<TcpStream>)> {
    let stream = stream.into_std()?;
    let copy = stream.try_clone().and_then(TcpStream::from_std).ok();
    Ok((TcpStream::from_std(stream)?, copy))
}

/// A connection, as HTTP sees it.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}

impl<S: AsyncRead + AsyncWrite + Send> Stream for S {}

/// The connection of a client, encrypted if there is a certificate. Fails if it does not speak TLS within the time for a request's
/// head; the stream fails when the client reads nothing for `write_time`.
pub(crate) async fn open(
    stream: TcpStream,
    tls: Option<&Tls>,
    head_time: Duration,
    write_time: Duration,
) -> io::Result<Pin<Box<dyn Stream>>> {
    // A small answer must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let stream = Box::pin(reading(stream, write_time));
    match tls {
        None => Ok(stream),
        Some(Tls(acceptor)) => {
            let accepted = tokio::time::timeout(head_time, acceptor.accept(stream)).await;
            Ok(Box::pin(accepted.map_err(|_| io::ErrorKind::TimedOut)??))
        }
    }
}

/// A stream that fails when nothing can be written for so long: its client does not read.
fn reading<S: AsyncRead + AsyncWrite>(stream: S, time: Duration) -> TimeoutStream<S> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(time));
    stream
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn who_does_not_read_is_cut_off() {
        let (server, mut client) = tokio::io::duplex(16);
        let mut server = Box::pin(reading(server, Duration::from_millis(20)));
        let mut begin = [0; 40];
        // Slow is not too slow.
        let written = async { server.write_all(&[7; 50]).await };
        let (written, read) = tokio::join!(written, client.read_exact(&mut begin));
        written.expect("it is read");
        assert_eq!(read.expect("it is written"), 40);
        let error = server.write_all(&[7; 50]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
