//! A stand-in for a TLS server with a self-signed certificate.
//!
//! The certificates (`fixtures/tls`) are made by `openssl req -x509`: CA:TRUE. `here` is for
//! 127.0.0.1 and valid until 2120, `elsewhere` is for another name, `expired` was valid until 2020.
//! Every request is answered with 200 and an empty body.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A certificate, as DER.
pub fn certificate(name: &str) -> io::Result<Vec<u8>> {
    fs::read(crate::fixtures().join("tls").join(format!("{name}.crt.der")))
}

/// A certificate, as PEM.
pub fn pem(name: &str) -> io::Result<String> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::from("-----BEGIN CERTIFICATE-----");
    let mut width = 64;
    for three in certificate(name)?.chunks(3) {
        if width == 64 {
            text.push('\n');
            width = 0;
        }
        let number = (0..3).fold(0_usize, |all, at| {
            all << 8 | usize::from(three.get(at).copied().unwrap_or_default())
        });
        for at in 0..4 {
            let digit = char::from(DIGITS[number >> (18 - 6 * at) & 63]);
            text.push(if at <= three.len() { digit } else { '=' });
        }
        width += 4;
    }
    text.push_str("\n-----END CERTIFICATE-----\n");
    Ok(text)
}

/// Starts a server with that certificate on a free port, and returns the port. The server ends with
/// the process.
pub fn serve(name: &str) -> io::Result<u16> {
    let key = fs::read(crate::fixtures().join("tls").join(format!("{name}.key.der")))?;
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            let chain = vec![CertificateDer::from(certificate(name).unwrap_or_default())];
            builder.with_no_client_auth().with_single_cert(chain, key)
        });
    let config = Arc::new(config.map_err(io::Error::other)?);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            // A client that rejects the certificate disconnects.
            thread::spawn(move || drop(answer(connection, config)));
        }
    });
    Ok(port)
}

fn answer(connection: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    let session = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = BufReader::new(StreamOwned::new(session, connection));
    let mut length = 0;
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("content-length:") {
            length = number.trim().parse().unwrap_or_default();
        }
    }
    io::copy(&mut stream.by_ref().take(length), &mut io::sink())?;
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.get_mut().write_all(answer)?;
    stream.get_mut().flush()
}
