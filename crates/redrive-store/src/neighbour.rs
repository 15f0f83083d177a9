//! Which kind of server answers at an address, when it does not speak as the address says.
//!
//! A MySQL server speaks first, a Postgres server answers. So whoever dials one as the other waits for ever, or
//! reads nonsense. Asking costs a second connection, and is done only when the first one has failed or is silent.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::OtherServer;

/// A server that has not greeted by then may be one of another kind.
pub(crate) const SILENCE: Duration = Duration::from_millis(1_500);
/// How long the other kind may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Within which a person who mixed up two servers is told so.
const NOTICED: Duration = Duration::from_secs(3);
const _: () = assert!(SILENCE.as_millis() + ANSWER.as_millis() < NOTICED.as_millis());

/// What a Postgres client may say before anything else: shall we use TLS?
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Whether a Postgres server answers there: it says yes or no to TLS, in one letter.
pub(crate) async fn is_postgres(host: &str, port: u16) -> Option<OtherServer> {
    let answer = timeout(ANSWER, async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        stream.write_all(&SSL_REQUEST).await.ok()?;
        let mut letters = [0; 2];
        let read = stream.read(&mut letters).await.ok()?;
        matches!(letters[..read], [b'S' | b'N']).then_some(())
    });
    let found = OtherServer { found: "a Postgres server", scheme: "postgres://" };
    answer.await.ok().flatten().map(|()| found)
}

/// Whether a MySQL server answers there: it greets, or says why it does not, in its packet number 0.
pub(crate) async fn is_mysql(host: &str, port: u16) -> Option<OtherServer> {
    let answer = timeout(ANSWER, async {
        let mut stream = TcpStream::connect((host, port)).await.ok()?;
        // The length of the packet, its number, the version of the protocol or the mark of an error.
        let mut head = [0; 5];
        stream.read_exact(&mut head).await.ok()?;
        matches!(head, [_, _, 0, 0, 10 | 255]).then_some(())
    });
    let found = OtherServer { found: "a MySQL or MariaDB server", scheme: "mysql://" };
    answer.await.ok().flatten().map(|()| found)
}
